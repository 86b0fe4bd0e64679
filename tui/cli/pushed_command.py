"""A command of one's own on a rented machine: this folder is taken there before it runs."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from runners.host.files import home_folder
from runners.model.errors import DeniedError, FresnelError, WrongInput
from runners.model.trailing_command import with_flags
from runners.model.units import counted
from runners.places.ssh.groups import names_several
from runners.places.ssh.protocol import new_request_name
from runners.places.ssh.push import plan_folder_push
from runners.places.ssh.push_list import list_to_push
from runners.places.ssh.pushed_files import place_of_folder
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import withdraw
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from runners.state.requests import REQUEST
from tui.cli.given_variables import sent_secrets
from tui.cli.host_run import check_allowed, is_for_any, run_patiently, run_remotely
from tui.cli.output import echo, is_confirmed
from tui.cli.push import Shipment, prepare, send_all
from tui.cli.results_here import bring_results, brings_results, is_about_folder
from tui.views.format import size

_ASKED_ABOVE = 200_000_000
"""Bytes: more than so many are not sent without a question."""


def run_pushed(arguments: argparse.Namespace) -> int:
    """`launch`, `plan` and `verify` of a command on the machine that `--host` names."""
    registry = RemoteRegistry(StateDirectory())
    check_allowed(registry, arguments)
    is_any = is_for_any(registry, arguments)
    if is_any or names_several(registry, arguments.host) or arguments.preset:
        if is_any and arguments.command_name == "launch":
            _ask_before_waiting(arguments)
        return run_remotely(arguments)
    ssh = Ssh(registry, registry.find(arguments.host))
    folder = _folder_there(ssh, arguments)
    name, secrets = arguments.command_name, sent_secrets(arguments)

    def run() -> int:
        return run_patiently(ssh, arguments.remote_command, name, folder, secrets)

    if brings_results(arguments):
        return _with_results(ssh, arguments, run)
    return run()


def _folder_there(ssh: Ssh, arguments: argparse.Namespace) -> str:
    """The folder there in which the command runs; what it needs of this one is sent first.

    The folder where runs start, where the command names nothing of this one. A `plan` only says
    what would be sent. FresnelError when it is refused, or not reached.
    """
    host, here = ssh.host, Path.cwd()
    command: Sequence[str] = arguments.trailing_command
    if not is_about_folder(arguments):
        return host.folder
    if not host.folder:
        raise FresnelError(
            f"{host.name} is not set up", f"`fresnel-tui host setup {host.name}` does it"
        )
    remote = place_of_folder(ssh.registry, host, here)
    if arguments.no_push:
        return remote
    if here in (home := home_folder(), *home.parents):
        raise WrongInput(
            f"{here} would be sent whole: it is your home folder, or above it",
            "put the program into a folder of its own; --no-push sends nothing",
        )
    items = plan_folder_push(here, remote, host, arguments.also)
    shipments = prepare(ssh, items, secrets=arguments.secrets)
    _warn_of_words(here, command, shipments)
    changed = [shipment for shipment in shipments if any(shipment.changes[:2])]
    count = sum(len(shipment.changes.to_send) for shipment in changed)
    total = sum(shipment.changes.bytes for shipment in changed)
    where = f"{host.name}:{remote}"
    if not changed:
        echo(f"{where} is as it is here")
    elif arguments.command_name == "plan":
        echo(f"{counted(count, 'file')}, {size(total)}, would be sent to {where}")
    else:
        echo(f"to send: {counted(count, 'file')}, {size(total)} → {where}")
        _ask_for_much(total, arguments.yes)
        send_all(ssh, changed)
    return remote


def _with_results(ssh: Ssh, arguments: argparse.Namespace, launch: Callable[[], int]) -> int:
    """The exit code of `launch`; the results of the runs that it waited for are brought here."""
    # By its name a launch is asked for what it has started.
    request = os.environ.setdefault(REQUEST, new_request_name())
    code = launch()
    try:
        bring_results(ssh.host.name, withdraw(ssh, request))
    except FresnelError as error:
        echo(f"⚠ not fetched: {error.message}; fresnel-tui fetch last --host {ssh.host.name}")
    return code


def _ask_before_waiting(arguments: argparse.Namespace) -> None:
    """Whether much may be sent is asked now: whoever starts it later asks nobody."""
    if arguments.preset or arguments.no_push or not is_about_folder(arguments):
        return
    listed = list_to_push(Path.cwd(), is_program=True, excludes=(), secrets=arguments.secrets)
    _ask_for_much(listed.bytes, arguments.yes)
    if listed.bytes > _ASKED_ABOVE and not arguments.yes:
        arguments.remote_command = with_flags(arguments.remote_command, "--yes")


def _ask_for_much(total: int, is_agreed: bool) -> None:
    """DeniedError where nobody agrees that so many bytes are sent."""
    if is_agreed or total <= _ASKED_ABOVE:
        return
    hint = "--yes sends it; a .gitignore here leaves out what is not needed"
    if not sys.stdin.isatty() or not is_confirmed(f"send {size(total)}?"):
        raise DeniedError(f"{size(total)} are to be sent, nothing was", hint)


def _warn_of_words(here: Path, command: Sequence[str], shipments: Sequence[Shipment]) -> None:
    """Name the paths in a command that are here, and will not be there."""
    sent = {shipment.listed.root / name for shipment in shipments for name in shipment.listed.files}
    known = {Path(os.path.normpath(place)) for path in sent for place in (path, *path.parents)}
    for word in command[1:]:
        name = word.partition("=")[2] if word.startswith("-") else word
        path = Path(name)
        try:
            is_here = bool(name) and len(name) < 256 and (here / path).exists()
        except (OSError, ValueError):
            is_here = False
        if not is_here or Path(os.path.normpath(here / path)) in known:
            continue
        if not path.is_absolute() and ".." not in path.parts:
            echo(f"⚠ {name}: git ignores it, so it is not sent; --also {name} sends it")
        else:
            echo(f"⚠ {name}: outside this folder, it is not sent")
