"""`host end`: the end of a rented machine, when nothing on it is needed any more."""

import argparse
import os
import subprocess
import sys
from decimal import Decimal
from typing import Annotated

import msgspec

from runners.cost.prices import PriceEntry, list_prices
from runners.model.errors import DeniedError, ExitCode, FresnelError
from runners.places.ssh.fetch import ask_manifests
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.remote_ledger import take_in_ledger
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.host_run import Unfetched, remote_json, remote_output
from tui.cli.output import echo, print_json
from tui.views.format import dollars


class _Run(msgspec.Struct, frozen=True):
    """A run there, as far as it matters for the end."""

    id: str
    state: str
    ended: float | str | None


class _SessionCost(msgspec.Struct, frozen=True):
    """What one session there cost, in dollars."""

    usd: Annotated[float, msgspec.Meta(ge=0.0, le=1e9)] | None


class _Cost(msgspec.Struct, frozen=True):
    """What everything there cost."""

    sessions: list[_SessionCost]


def end_host(arguments: argparse.Namespace) -> int:
    """Refuse while something is needed there; keep its ledger; run what destroys it; forget it."""
    state = StateDirectory().create()
    registry = RemoteRegistry(state)
    host = registry.find(arguments.name)
    ssh = Ssh(registry, host)
    total: Decimal | None = None
    if host.command:
        try:
            _refuse_while_needed(ssh, arguments.anyway)
            total = _close_books(state, ssh)
        except FresnelError as error:
            if not arguments.anyway:
                raise
            echo(f"⚠ {error.message}; going on all the same")
    for line in bill_text(host):
        echo(line)
    command = arguments.end_command or host.end_command
    ended = bool(command) and _run_end(command, host, arguments.yes)
    if ended:
        ssh.disconnect()
        registry.forget(host.name)
        echo(f"{host.name} is ended and forgotten, its host key too")
    elif not command:
        echo(
            f"nothing was ended: no --end-command. Destroy it at the provider, then "
            f"`fresnel-tui host remove {host.name}`"
        )
    spent = None if total is None else float(total)
    if arguments.json:
        print_json({"host": host.name, "ended": ended, "spent_usd": spent})
    elif total is not None:
        echo(f"{dollars(total)} were spent on it in all, an estimate; kept in {state.ledger}")
    return ExitCode.DONE if ended or not command else ExitCode.RUN_FAILED


def _refuse_while_needed(ssh: Ssh, anyway: bool) -> None:
    name = ssh.host.name
    runs = remote_json(ssh, ["list"], list[_Run])
    live = [
        run.id
        for run in runs
        if run.ended is None and run.state not in ("unseen", "lost", "failed")
    ]
    if live:
        raise DeniedError(
            f"{len(live)} live on {name}: {', '.join(live)}",
            f"fresnel-tui stop --all --wait --host {name}",
        )
    unfetched = remote_json(ssh, ["fetched"], Unfetched).unfetched
    if unfetched and not anyway:
        raise DeniedError(
            f"not fetched from {name}: {', '.join(unfetched)}",
            f"fresnel-tui fetch --all --host {name} --to FOLDER; --anyway leaves them behind",
        )


def _close_books(state: StateDirectory, ssh: Ssh) -> Decimal | None:
    """End the session there, take its ledger into ours; what the machine cost."""
    remote_output(ssh, ["session", "end"])
    cost = remote_json(ssh, ["cost"], _Cost)
    take_in_ledger(state, ask_manifests(ssh, [], "none").ledger, ssh.host.name)
    spent = [Decimal(str(session.usd)) for session in cost.sessions if session.usd is not None]
    return sum(spent, Decimal(0)) if spent else None


def bill_text(host: RemoteHost) -> list[str]:
    """What stopping, powering off and destroying do to the bill at this provider."""
    entry: PriceEntry | None = next(
        (price for price in list_prices() if price.name == host.price), None
    )
    if entry is None or not (entry.stop or entry.destroy):
        return ["what ends the bill is not known for this provider: look it up there"]
    lines = [f"{entry.provider}: {entry.stop}"] if entry.stop else []
    effects = {
        "billed": "powering it off from inside ends no bill",
        "partly": "powering it off ends a part of the bill",
        "ends": "powering it off ends the bill",
    }
    lines += [f"{entry.provider}: {effects[entry.shutdown]}"] if entry.shutdown in effects else []
    return lines + ([f"{entry.provider}: {entry.destroy}"] if entry.destroy else [])


def _run_end(command: str, host: RemoteHost, yes: bool) -> bool:
    """Run the command that destroys the machine, here; False when somebody thought better of it."""
    if not yes:
        if not sys.stdin.isatty():
            raise DeniedError(f"this would run: {command}", "--yes runs it without asking")
        echo(f"this runs here: {command}")
        echo(f"end {host.name}? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return False
    surroundings = {"FRESNEL_REMOTE_NAME": host.name, "FRESNEL_REMOTE_ADDRESS": host.address}
    # Its words go to stderr: stdout is for the result alone.
    code = subprocess.run(
        command,
        shell=True,
        env={**os.environ, **surroundings},
        stdout=sys.stderr.fileno(),
        check=False,
    ).returncode
    if code:
        raise FresnelError(
            f"the end command failed with exit code {code}: {host.name} may still be billed",
            "check at the provider, then run the command again",
        )
    return True
