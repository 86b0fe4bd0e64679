"""What rented machines cost, asked for and kept here: their sessions, live runs and ledgers.

A machine's ledger is taken into ours, under its name here: it outlives the machine.
"""

import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from runners.cost.ledger import RunEntry, line_of
from runners.cost.machines import (
    MachineAccount,
    counted_under,
    note_missed,
    read_account,
    read_accounts,
    write_account,
)
from runners.cost.preemption import read_preemption
from runners.cost.sessions import SessionLine, read_session, settle_preemption
from runners.host.clock import Moment, moment_now
from runners.host.files import append_line, read_plain, read_text
from runners.host.files import replace as replace_file
from runners.host.identity import host_name
from runners.model.errors import FresnelError
from runners.model.run_ids import is_run_id
from runners.places.ssh.agent_tool import ask_tool
from runners.places.ssh.bounds import require_sane
from runners.places.ssh.frames import decoded
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run

_ANSWERS_WITHIN_S = 6.0
_Line = Annotated[str, Meta(max_length=1 << 20)]
_decoder = msgspec.json.Decoder(RunEntry | SessionLine)


class AccountAnswer(msgspec.Struct, frozen=True):
    """A machine's money, by its own clocks: ledger lines of its session and its live runs.

    `ledger` is what its ledger has from the byte that was asked for, whole lines, up to the byte
    `ledger_end`.
    """

    host: Annotated[str, Meta(max_length=200)]
    now: Moment
    session: _Line = ""
    live: Annotated[list[_Line], Meta(max_length=10_000)] = []
    ledger: str = ""
    ledger_end: Annotated[int, Meta(ge=0, le=1 << 60)] = 0
    gone: Moment | None = None
    """When its provider takes it away."""


def account_of_here(ledger_from: int) -> bytes:
    """This machine's money as JSON, for whoever rented it."""
    state = StateDirectory()
    # Who asks takes the ledger in: it must have the end of a session that went with the machine.
    settle_preemption(state)
    session = read_session(state)
    runs = (read_run(state, run) for run in live_run_ids(state))
    lines = [line for run in runs if (line := line_of(run)) is not None]
    content = b""
    with suppress(OSError):
        content = read_plain(state.ledger)
    preemption = read_preemption(state)
    end = content.rfind(b"\n") + 1
    # A shorter ledger is another one: all of it is new.
    start = ledger_from if ledger_from <= end else 0
    return msgspec.json.encode(
        AccountAnswer(
            host_name(),
            moment_now(),
            "" if session is None else msgspec.json.encode(SessionLine(session)).decode(),
            [msgspec.json.encode(line).decode() for line in lines if line.host == host_name()],
            content[start:end].decode("utf-8", "replace"),
            end,
            None if preemption is None else preemption.gone,
        )
    )


def refresh_account(state: StateDirectory, ssh: Ssh) -> MachineAccount:
    """Ask a machine what it costs, and keep the answer and its ledger here.

    FresnelError when it is not reached, or answers something else; OSError when it cannot be kept.
    """
    try:
        return _keep(state, ssh, _ask(state, ssh))
    except FresnelError:
        note_missed(state, ssh.host.name)
        raise


def _ask(state: StateDirectory, ssh: Ssh) -> AccountAnswer:
    before = read_account(state, ssh.host.name)
    asked = {"ledger_from": 0 if before is None else before.taken}
    try:
        answer = decoded(ask_tool(ssh, "account", asked), AccountAnswer)
        require_sane(answer.now)
        require_sane(answer.gone)
    except ValueError as error:
        raise FresnelError(
            f"{ssh.host.name}: what it costs cannot be understood: {error}"
        ) from None
    return answer


def _keep(state: StateDirectory, ssh: Ssh, answer: AccountAnswer) -> MachineAccount:
    asked = ssh.host.name
    name = _name_in_ledger(state, ssh, answer)
    account = msgspec.structs.replace(_account(answer, name), same_as="" if name == asked else name)
    before = read_account(state, asked)
    if account.session is None and before is not None and before.is_created:
        # It was reached, and is not set up yet: what it is rented for goes on.
        account = msgspec.structs.replace(account, session=before.session, is_created=True)
    take_in_ledger(state, answer.ledger, name)
    write_account(state, asked, account)
    return account


def _account(answer: AccountAnswer, name: str) -> MachineAccount:
    """What a machine answered, by its name in our ledger."""
    session = read_line(answer.session, name) if answer.session else None
    lines = (read_line(line, name) for line in answer.live)
    return MachineAccount(
        answer.host,
        answer.now,
        time.time(),
        session.session if isinstance(session, SessionLine) else None,
        tuple(line for line in lines if isinstance(line, RunEntry)),
        answer.ledger_end,
        gone=answer.gone,
    )


def _name_in_ledger(state: StateDirectory, ssh: Ssh, answer: AccountAnswer) -> str:
    """The name under which a machine is counted: its first, when it was added under several."""
    rented = [host.name for host in ssh.registry.all()]
    accounts = read_accounts(state, rented)
    asked = ssh.host.name
    before, now = accounts.get(asked), _account(answer, asked)
    known = {name: now if name == asked else accounts.get(name) for name in rented}
    first = counted_under({name: kept for name, kept in known.items() if kept is not None})[asked]
    if first == asked and before is not None and before.same_as and before.is_same(now):
        return before.same_as
    return first


def refresh_accounts(state: StateDirectory) -> None:
    """Ask every machine that is set up what it costs, all at once; who is late is not reached."""
    registry = RemoteRegistry(state)
    machines = [Ssh(registry, host) for host in registry.all() if host.command]
    answers: dict[str, AccountAnswer] = {}

    def ask(ssh: Ssh) -> None:
        with suppress(FresnelError, OSError):
            answers[ssh.host.name] = _ask(state, ssh)

    threads = [Thread(target=ask, args=(ssh,), daemon=True) for ssh in machines]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _ANSWERS_WITHIN_S
    for ssh, thread in zip(machines, threads, strict=True):
        thread.join(max(0.0, until - time.monotonic()))
        # Kept one after the other: two names may be of one machine.
        with suppress(OSError):
            if ssh.host.name in answers:
                _keep(state, ssh, answers[ssh.host.name])
            else:
                note_missed(state, ssh.host.name)


def rented_names(state: StateDirectory) -> list[str]:
    """The names of the machines that are added, the oldest first."""
    readable, odd = RemoteRegistry(state).readable()
    return [*(host.name for host in readable), *odd]


def take_in_ledger(state: StateDirectory, text: str, name: str) -> int:
    """Append the lines of another machine's ledger that ours lacks, as of host `name`; how many.

    What cannot be read is left out. OSError when ours cannot be written.
    """
    known = set(read_text(state.ledger).splitlines())
    taken = 0
    for line in text.splitlines():
        entry = read_line(line, name)
        renamed = "" if entry is None else msgspec.json.encode(entry).decode()
        if renamed and renamed not in known:
            append_line(state.ledger, renamed.encode())
            taken += 1
    return taken


def keep_ledger(folder: Path, name: str, text: bytes) -> str:
    """Keep another machine's ledger as `NAME-ledger.jsonl`, which only ever grows.

    One that got shorter, or has another past, is laid beside it; what is wrong, said once for each.
    """
    kept, other = folder / f"{name}-ledger.jsonl", folder / f"{name}-ledger.refused.jsonl"
    if text.startswith(_bytes(kept)):
        replace_file(kept, text)
        return ""
    if text == _bytes(other):
        return ""
    replace_file(other, text)
    return (
        f"the ledger of {name} is not the one fetched before with more behind it: {kept} stays as "
        f"it was, what it says now is {other}"
    )


def _bytes(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError:
        return b""


def read_line(line: str, name: str) -> RunEntry | SessionLine | None:
    """A ledger's line with the machine's name here; None for one that no ledger of ours has."""
    try:
        entry = _decoder.decode(line)
        require_sane(entry)
        price = entry.session.price if isinstance(entry, SessionLine) else entry.price
        if price is not None:
            require_sane(Decimal(price.usd_per_hour))
    except (ArithmeticError, ValueError, RecursionError):
        return None
    # Two rented machines may well call themselves alike; their names here differ.
    if isinstance(entry, SessionLine):
        return replace(entry, session=replace(entry.session, host=name))
    return replace(entry, host=name) if is_run_id(entry.run) else None
