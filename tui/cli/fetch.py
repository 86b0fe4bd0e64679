"""`fetch`: results of runs, brought from a rented machine, proven, and marked as fetched there."""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from runners.host.files import expanded, replace
from runners.lifecycle.control.fetched import Unfetched
from runners.model.errors import FresnelError, WrongInput
from runners.model.units import counted
from runners.places.ssh.accounts import keep_ledger
from runners.places.ssh.fetch import CURVES, FetchedRun, ask_manifests, fetch_run
from runners.places.ssh.kept_fetches import (
    KeptFetch,
    free_name,
    keep_fetching,
    list_fetches,
    resume_fetches,
)
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import remote_output
from runners.places.ssh.retries import FIRST_PAUSES_S, retry
from runners.places.ssh.rsync import make_copier
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tui.cli.copy_progress import progress_line
from tui.cli.host import local_place
from tui.cli.host_run import remote_json
from tui.cli.output import echo, print_json
from tui.views.format import duration, size
from tui.views.json_values import fields_json

T = TypeVar("T")

_POLL_S = 0.5


def run_fetch(arguments: argparse.Namespace) -> None:
    """Bring what is asked for, once or until the runs have ended."""
    if bool(arguments.runs) == arguments.all:
        raise WrongInput("name the runs to fetch, or --all", "fresnel-tui fetch last --host NAME")
    registry = RemoteRegistry(StateDirectory())
    ssh = Ssh(registry, registry.find(arguments.host))
    every = arguments.every
    to = expanded(arguments.to).absolute()
    found = _once(ssh, arguments, to, patient=every is not None)
    if every is not None and (found is None or any(result.is_live for result in found)):
        kept = _keep(ssh, arguments, to, every, found or [])
        if arguments.wait:
            _await_end(kept)
            found = _once(ssh, arguments, to, patient=True)  # what there is of it now
    if arguments.json:
        print_json([_json(result) for result in found or ()])


def _keep(
    ssh: Ssh, arguments: argparse.Namespace, to: Path, every_s: float, found: list[FetchedRun]
) -> KeptFetch:
    """Have it repeated without this terminal, of these very runs: `last` is another one soon."""
    live = tuple(result.run for result in found if result.is_live)
    runs = () if arguments.all else live or tuple(arguments.runs)
    state, base = StateDirectory().create(), f"{ssh.host.name}-{runs[0] if runs else 'all'}"
    name = free_name(state, base, runs, str(to))
    kept = KeptFetch(
        name, ssh.host.name, runs, str(to), arguments.checkpoints, every_s, time.time()
    )
    keep_fetching(state, kept)
    echo(
        f"repeated every {duration(every_s)} until they have ended, without this terminal: "
        f"fresnel-tui fetches; fresnel-tui fetches stop {name}"
    )
    return kept


def _await_end(kept: KeptFetch) -> None:
    """Wait until they have ended and are here, or nobody repeats it any more."""
    state, problem = StateDirectory(), ""
    while True:
        fetches = [each for each in list_fetches(state) if each.name == kept.name]
        if not fetches or fetches[0].ended:
            return
        if fetches[0].problem not in ("", problem):
            echo(f"{time.strftime('%H:%M')} {fetches[0].problem}; trying again later")
        problem = fetches[0].problem
        resume_fetches(state)
        time.sleep(_POLL_S)


def _once(
    ssh: Ssh, arguments: argparse.Namespace, to: Path, patient: bool
) -> list[FetchedRun] | None:
    """Fetch once; None when the machine was not reached and somebody asks again later."""
    try:
        return _fetch(ssh, arguments, to)
    except RemoteTrouble as error:
        if not patient or error.kind not in (Trouble.NOT_REACHED, Trouble.SILENT):
            raise
        echo(f"{time.strftime('%H:%M')} {error.message}; trying again later")
        return None


def _fetch(ssh: Ssh, arguments: argparse.Namespace, to: Path) -> list[FetchedRun]:
    names = (
        list(arguments.runs)
        or _patiently(lambda: remote_json(ssh, ["fetched"], Unfetched)).unfetched
    )
    if not names:
        echo(f"everything on {ssh.host.name} is fetched")
        return []
    manifests = ask_manifests(ssh, names, arguments.checkpoints, echo)
    copier = make_copier(ssh, echo)
    fetched = []
    for manifest in manifests.runs:
        with progress_line(copier, manifest.run):
            result = fetch_run(ssh, copier, manifest, to, arguments.checkpoints, echo)
        # Every value of every metric, as the machine there reads them.
        asked = ["metrics", result.run, "--csv"]
        curves = _patiently(partial(remote_output, ssh, asked))
        if not curves.exit_code and curves.output:
            replace(result.folder / CURVES, curves.output)
        fetched.append(result)
        _print_result(result, is_repeated=arguments.every is not None)
        if not result.is_live and arguments.checkpoints != "none":
            noted = ["fetched", result.run, "--to", local_place(str(result.folder))]
            done = _patiently(partial(remote_output, ssh, noted))
            if done.exit_code:
                problem = done.errors.decode("utf-8", "replace")
                raise FresnelError(f"{result.run}: cannot be marked there: {problem}")
    problem = keep_ledger(to, ssh.host.name, manifests.ledger.encode())
    if problem:
        echo(f"⚠ {problem}")
    return fetched


def _patiently(ask: Callable[[], T]) -> T:
    """Ask again after a line that broke: none of these questions is done twice."""
    return retry(ask, notify=echo, pauses_s=FIRST_PAUSES_S)


def _print_result(result: FetchedRun, is_repeated: bool) -> None:
    what = (
        f"{counted(result.files, 'file')}, {size(result.bytes)}" if result.files else "nothing new"
    )
    kept = f"; checkpoints {', '.join(result.checkpoints)}" if result.checkpoints else ""
    echo(f"{result.run} ({result.state}): {what}{kept}, all hashes match → {result.folder}")
    if result.changing:
        echo(f"  still being written: {', '.join(result.changing)}")
    if result.rewritten:
        echo(f"  ⚠ changed since they were fetched: {', '.join(result.rewritten)}")
    if result.is_live and not is_repeated:
        echo("  still running: fetch it again when it has ended, or use --every 10m")


def _json(result: FetchedRun) -> dict[str, object]:
    return {
        **fields_json(result, "run", "state", "files", "bytes", "checkpoints", "rewritten"),
        "live": result.is_live,
        "folder": str(result.folder),
        "still_changing": result.changing,
        "copied_anew": result.mended,
        "fetched": not result.is_live,
    }
