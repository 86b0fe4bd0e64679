"""What a command of this folder left on another machine, brought to `./fetched` when it ended."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from runners.model.errors import FresnelError
from runners.model.run_ids import is_run_id
from runners.places.ssh.push import names_file_of
from tui.cli.output import echo


def brings_results(arguments: argparse.Namespace) -> bool:
    """Whether what was started is waited for, in this folder there, and its results are wanted."""
    is_waited_for = arguments.command_name == "launch" and (arguments.wait or arguments.follow)
    return is_waited_for and not arguments.no_fetch and is_about_folder(arguments)


def is_about_folder(arguments: argparse.Namespace) -> bool:
    """Whether a command is one of this folder, which it needs there."""
    is_old = getattr(arguments, "again", None) or getattr(arguments, "resume", None)
    command: Sequence[str] | None = arguments.trailing_command
    if arguments.preset or command is None or is_old:
        return False
    return bool(arguments.push or names_file_of(Path.cwd(), command))


def bring_results(host: str, runs: Sequence[str]) -> None:
    """Fetch the results of runs that were started on a machine.

    FresnelError when what it names are no runs.
    """
    if not all(map(is_run_id, runs)):
        raise FresnelError(f"{host} does not say what was started")
    if not runs:
        return
    from tui.cli import run_command

    to = Path("fetched")
    if not to.exists():
        to.mkdir()
        (to / ".gitignore").write_text("*\n")  # or the next launch would send it back
    if run_command(["fetch", *runs, "--host", host, "--to", str(to)]):
        echo(f"⚠ not fetched: fresnel-tui fetch last --host {host}")
