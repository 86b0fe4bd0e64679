"""`host end`: the end of a rented machine, when nothing on it is needed any more."""

import argparse
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal

import msgspec

from runners.cost.accounting import add_fractions, to_decimal
from runners.cost.ledger import Ledger
from runners.cost.machines import close_account, machine_statement
from runners.cost.prices import PriceEntry, list_prices
from runners.lifecycle.control.fetched import Unfetched
from runners.model.errors import DeniedError, ExitCode, FresnelError
from runners.places.ssh.accounts import refresh_account, rented_names
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.rental import read_rental, refuse_while_created, surroundings
from runners.places.ssh.ssh import Ssh, quoted
from runners.state.layout import StateDirectory
from tui.cli.host_run import remote_json
from tui.cli.output import agreed, echo, print_json
from tui.views.format import dollars

_ANSWERS_WITHIN_S = 5.0
"""So long a machine that is being destroyed is waited for."""


class _Run(msgspec.Struct, frozen=True):
    """A run there, as far as it matters for the end."""

    id: str
    state: str
    ended: float | str | None


def end_host(arguments: argparse.Namespace) -> int:
    """Refuse while something is needed there; keep its ledger; run what destroys it; forget it.

    Its session ends once the command that destroys it has succeeded: until then it is paid for.
    """
    state = StateDirectory().create()
    registry = RemoteRegistry(state)
    host = registry.find(arguments.name)
    ssh = Ssh(registry, host)
    refuse_while_created(registry, host.name)
    if host.command:
        try:
            refuse_while_needed(ssh, arguments.anyway)
            refresh_account(state, ssh)
        except FresnelError as error:
            if not arguments.anyway or isinstance(error, _Needed):
                raise
            echo(f"⚠ {error.message}; continuing anyway")
    for line in bill_text(host):
        echo(line)
    command = arguments.end_command or host.end_command
    ended = bool(command) and _run_end(registry, command, host, arguments.yes)
    if ended:
        _close_books(state, ssh)
    elif not command:
        anyway = "" if read_rental(registry, host.name) is None else " --anyway"
        echo(
            f"nothing was ended: no --end-command. Destroy it at the provider, or remove what is "
            f"left there (`fresnel-tui host clean {host.name}`), then "
            f"`fresnel-tui host remove {host.name}{anyway}`"
        )
    total = _total(state, host.name)
    if ended:
        ssh.disconnect()
        registry.forget(host.name)
        echo(f"{host.name} has been ended and forgotten, with its host key")
    spent = None if total is None else float(total)
    if arguments.json:
        print_json({"host": host.name, "ended": ended, "spent_usd": spent})
    elif total is not None:
        so_far = "in total" if ended else "so far, and counting"
        echo(f"{dollars(total)} spent on it {so_far}, an estimate; recorded in {state.ledger}")
    return ExitCode.DONE if ended or not command else ExitCode.RUN_FAILED


class _Needed(DeniedError):
    """Something on the machine is needed still."""


def refuse_while_needed(ssh: Ssh, anyway: bool) -> None:
    """Name the runs that live there or are not fetched. DeniedError unless that is `anyway`."""
    name, (running, left) = ssh.host.name, _left_behind(ssh)
    live = f"{len(running)} live on {name}: {', '.join(running)}" if running else ""
    unfetched = f"not fetched from {name}: {', '.join(left)}" if left else ""
    if live and not anyway:
        raise _Needed(live, f"fresnel-tui stop --all --wait --host {name}")
    if unfetched and not anyway:
        raise _Needed(
            unfetched,
            f"fresnel-tui fetch --all --host {name} --to FOLDER; --anyway leaves them behind",
        )
    for problem in filter(None, (live, unfetched)):
        echo(f"⚠ {problem}: left behind")


def _left_behind(ssh: Ssh) -> tuple[list[str], list[str]]:
    """The live runs there, and the ended ones that are not fetched."""
    runs = remote_json(ssh, ["list"], list[_Run])
    live = [
        run.id
        for run in runs
        if run.ended is None and run.state not in ("unseen", "lost", "failed")
    ]
    answer = remote_json(ssh, ["fetched"], Unfetched)
    return live, [*answer.unfetched, *answer.removed]


def _close_books(state: StateDirectory, ssh: Ssh) -> None:
    """End its session: in our ledger, and there, should it answer still."""
    close_account(state, ssh.host.name, rented_names(state))
    if ssh.host.command:
        with suppress(FresnelError, ValueError):
            ssh.run(f"exec {quoted(ssh.host.command)} session end", timeout_s=_ANSWERS_WITHIN_S)


def _total(state: StateDirectory, name: str) -> Decimal | None:
    """Dollars that the machine's sessions cost by now; None where there was none."""
    ledger = Ledger(state)
    ledger.poll()
    statement = machine_statement(state, ledger, name, rented_names(state))
    if not statement.sessions:
        return None
    return to_decimal(
        add_fractions(statement.account(period).total for period in statement.sessions)
    )


def bill_text(host: RemoteHost) -> list[str]:
    """What stopping, powering off and destroying do to the bill at this provider."""
    entry: PriceEntry | None = next(
        (price for price in list_prices() if price.name == host.price), None
    )
    if entry is None or not (entry.stop or entry.destroy):
        return ["what stops the billing is not known for this provider: look it up there"]
    lines = [f"{entry.provider}: {entry.stop}"] if entry.stop else []
    effects = {
        "billed": "powering it off from inside does not stop the billing",
        "partly": "powering it off stops part of the billing",
        "ends": "powering it off stops the billing",
    }
    lines += [f"{entry.provider}: {effects[entry.shutdown]}"] if entry.shutdown in effects else []
    return lines + ([f"{entry.provider}: {entry.destroy}"] if entry.destroy else [])


def _run_end(registry: RemoteRegistry, command: str, host: RemoteHost, yes: bool) -> bool:
    """Run the command that destroys the machine, here; False when somebody thought better of it."""
    question = f"this runs here: {command}\nend {host.name}?"
    if not agreed(question, yes, f"this would run: {command}", "--yes runs it without asking"):
        return False
    # Its words go to stderr: stdout is for the result alone.
    code = subprocess.run(
        command,
        shell=True,
        env=surroundings(registry, host),
        stdout=sys.stderr.fileno(),
        check=False,
    ).returncode
    if code:
        raise FresnelError(
            f"the end command failed with exit code {code}: {host.name} may still be billed",
            "check at the provider, then run the command again",
        )
    return True
