"""`fetch`: results of runs, brought from a rented machine, proven, and marked as fetched there."""

import argparse
import json
import time
from pathlib import Path

from runners.host.files import replace
from runners.model.errors import ExitCode, FresnelError, WrongInput
from runners.model.units import parse_duration
from runners.places.ssh.copier_choice import make_copier
from runners.places.ssh.fetch import FetchedRun, ask_manifests, fetch_run
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tui.cli.host import local_place
from tui.cli.host_run import output_there
from tui.cli.output import print_json, say
from tui.cli.progress import progress_line
from tui.views.format import size

CURVES = "fresnel-metrics.csv"


def run_fetch(arguments: argparse.Namespace) -> int:
    """Bring what is asked for, once or until the runs have ended."""
    if bool(arguments.runs) == arguments.all:
        raise WrongInput("name the runs to fetch, or --all", "fresnel-tui fetch last --host NAME")
    registry = RemoteRegistry(StateDirectory())
    ssh = Ssh(registry, registry.find(arguments.host))
    every = None
    if arguments.every is not None:
        try:
            every = parse_duration(arguments.every)
        except ValueError as error:
            raise WrongInput(f"--every: {error}") from None
    to = Path(arguments.to).expanduser().absolute()
    while True:
        found = _once(ssh, arguments, to, patient=every is not None)
        if every is None or (found is not None and not any(one.is_live for one in found)):
            break
        time.sleep(every)
    if arguments.json:
        print_json([_json(one) for one in found or ()])
    return ExitCode.DONE


def _once(
    ssh: Ssh, arguments: argparse.Namespace, to: Path, patient: bool
) -> list[FetchedRun] | None:
    """Fetch once; None when the machine was not reached and somebody asks again later."""
    try:
        return _fetch(ssh, arguments, to)
    except RemoteTrouble as error:
        if not patient or error.kind is not Trouble.NOT_REACHED:
            raise
        say(f"{time.strftime('%H:%M')} {error.message}; asking again later")
        return None


def _fetch(ssh: Ssh, arguments: argparse.Namespace, to: Path) -> list[FetchedRun]:
    names = list(arguments.runs) or _unfetched(ssh)
    if not names:
        say(f"everything on {ssh.host.name} is fetched")
        return []
    manifests = ask_manifests(ssh, names, arguments.checkpoints)
    copier = make_copier(ssh, say)
    fetched = []
    for manifest in manifests.runs:
        with progress_line(copier, str(manifest["run"])):
            one = fetch_run(ssh, copier, manifest, to, arguments.checkpoints, say)
        _keep_curves(ssh, one)
        fetched.append(one)
        _tell(one)
        if not one.is_live and arguments.checkpoints != "none":
            done = output_there(ssh, ["fetched", one.run, "--to", local_place(str(one.folder))])
            if done.exit_code:
                raise FresnelError(f"{one.run}: cannot be marked there: {done.errors.decode()}")
    replace(to / f"{ssh.host.name}-ledger.jsonl", manifests.ledger.encode())
    return fetched


def _unfetched(ssh: Ssh) -> list[str]:
    done = output_there(ssh, ["fetched", "--json"])
    if done.exit_code:
        raise FresnelError(done.errors.decode("utf-8", "replace").strip())
    return [str(run) for run in json.loads(done.output)["unfetched"]]


def _keep_curves(ssh: Ssh, one: FetchedRun) -> None:
    """Every value of every metric, as the machine there reads them."""
    done = output_there(ssh, ["metrics", one.run, "--csv"])
    if not done.exit_code and done.output:
        replace(one.folder / CURVES, done.output)


def _tell(one: FetchedRun) -> None:
    what = f"{one.files:,} files, {size(one.bytes)}" if one.files else "nothing new"
    kept = f"; checkpoints {', '.join(one.checkpoints)}" if one.checkpoints else ""
    say(f"{one.run} ({one.state}): {what}{kept}, every hash as there → {one.folder}")
    if one.changing:
        say(f"  still being written: {', '.join(one.changing)}")
    if one.is_live:
        say("  it goes on: fetch it again when it has ended, or --every 10m")


def _json(one: FetchedRun) -> dict[str, object]:
    return {
        "run": one.run,
        "state": one.state,
        "live": one.is_live,
        "folder": str(one.folder),
        "files": one.files,
        "bytes": one.bytes,
        "checkpoints": list(one.checkpoints),
        "still_changing": list(one.changing),
        "copied_anew": one.mended,
        "fetched": not one.is_live,
    }
