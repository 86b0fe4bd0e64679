"""A day with rented machines, one ended, one not reached, one live: `cost` explains every cent.

What each machine and run should have cost is reckoned here second by second, by other means.
"""

import csv
import io
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from runners.cost.ledger import RunEntry
from runners.cost.machines import (
    MachineAccount,
    MachineCost,
    MachineState,
    read_account,
    read_machines,
    write_account,
)
from runners.cost.sessions import Session, SessionLine
from runners.cost.statement import Statement
from runners.host.clock import Moment
from runners.host.files import append_line
from runners.model.plan import AssignedGpu
from runners.model.spec import Price
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from tests.process.conftest import CommandLine
from tui.views.money.machine_costs import machine_json, machine_pairs, machine_rows

HOUR = 3600
# Each machine: dollars per hour, GPUs, seconds since its session began, and until it ended.
MACHINES: Mapping[str, tuple[int, int, int, int | None]] = {
    "gone": (16, 8, 12 * HOUR, 5 * HOUR),
    "dark": (9, 2, 7 * HOUR, None),
    "live": (3, 1, 2 * HOUR, None),
}
# Each run: machine, GPUs, began and ended so many seconds ago.
RUNS: Mapping[str, tuple[str, tuple[int, ...], int, int | None]] = {
    "20261120-101500-a-0001": ("gone", (0, 1, 2), 11 * HOUR, 9 * HOUR),
    "20261120-101500-b-0002": ("gone", (2, 3), 10 * HOUR, 6 * HOUR),
    "20261120-101500-c-0003": ("dark", (0,), 6 * HOUR, 3 * HOUR),
    "20261120-101500-d-0004": ("dark", (0, 1), 4 * HOUR, None),
    "20261120-101500-e-0005": ("live", (0,), 1 * HOUR, HOUR // 2),
}


def ago(now: float, seconds: float | None, machine: str) -> Moment:
    """A moment of a machine's own boot, which began a day ago."""
    passed = seconds or 0
    return Moment(now - passed, f"boot of {machine}", round((24 * HOUR - passed) * 1e9))


def session_of(machine: str, now: float) -> Session:
    rate, gpus, began, ended = MACHINES[machine]
    start = ago(now, began, machine)
    end = None if ended is None else ago(now, ended, machine)
    return Session(
        start.wall,
        machine,
        Price(str(rate), "machine", "session"),
        gpus,
        ended=end.wall if end else None,
        id=f"session of {machine}",
        began=start,
        finished=end,
        uuids=tuple(f"GPU-{machine}-{at}" for at in range(gpus)),
    )


def entry_of(run: str, now: float) -> RunEntry:
    machine, gpus, began, ended = RUNS[run]
    held = tuple(AssignedGpu(at, f"GPU-{machine}-{at}", "H100", at) for at in gpus)
    start = ago(now, began, machine)
    end = None if ended is None else ago(now, ended, machine)
    return RunEntry(run, machine, "preset", run, "done", held, None, start, end)


def write_day(cli: CommandLine, now: float) -> None:
    """What this machine knows of the three, as `cost` and the panel's links leave it."""
    state = cli.state.create()
    registry = RemoteRegistry(state)
    for at, name in enumerate(MACHINES):
        session = session_of(name, now)
        ended = [entry_of(run, now) for run, row in RUNS.items() if row[0] == name and row[3]]
        for line in (*ended, *([SessionLine(session)] if session.end else [])):
            append_line(state.ledger, msgspec.json.encode(line))
        if session.end is not None:
            continue
        registry.save(RemoteHost(name, f"root@{name}", added=float(at)))
        live = tuple(
            entry_of(run, now) for run, row in RUNS.items() if row[0] == name and not row[3]
        )
        # The dark one was reached three hours ago for the last time.
        last = 3 * HOUR if name == "dark" else 0
        then, reached = ago(now, last, name), now - last
        missed = reached + 60 if last else None
        account = MachineAccount(f"own-{name}", then, reached, session, live, missed=missed)
        write_account(state, name, account)


def second_by_second(machine: str, step: int = 60) -> dict[str, Fraction]:
    """What each run cost on a machine, and idle, added up minute by minute."""
    rate, gpus, began, ended = MACHINES[machine]
    each = Fraction(rate, gpus) * step / HOUR
    amounts: dict[str, Fraction] = {"idle": Fraction(0)}
    for moment in range(began, ended or 0, -step):
        for gpu in range(gpus):
            holders = [
                run
                for run, (where, held, since, until) in RUNS.items()
                if where == machine and gpu in held and since >= moment > (until or 0)
            ]
            for name in holders or ["idle"]:
                amounts[name] = amounts.get(name, Fraction(0)) + each / max(1, len(holders))
    return amounts


@pytest.fixture
def day(cli: CommandLine) -> tuple[CommandLine, float]:
    now = time.time()
    write_day(cli, now)
    return cli, now


def test_every_cent_of_a_day_with_three_machines_is_explained(
    day: tuple[CommandLine, float],
) -> None:
    cli, now = day
    found = cli.json("cost")
    passed = time.time() - now
    machines = {machine["machine"]: machine for machine in found["machines"]}
    assert {name: machine["state"] for name, machine in machines.items()} == {
        "gone": "ended",
        "dark": "not reached",
        "live": "reached",
    }
    for name, machine in machines.items():
        want = second_by_second(name)
        rate, _, _, ended = MACHINES[name]
        # What is open has cost a little more by the time the command reads its clock.
        spare = 1e-6 if ended else rate * passed / HOUR + 1e-6
        assert machine["usd"] == pytest.approx(float(sum(want.values())), abs=spare)
        assert machine["idle_usd"] == pytest.approx(float(want.pop("idle")), abs=spare)
        assert machine["runs"] == {
            run: pytest.approx(float(amount), abs=spare) for run, amount in want.items()
        }
        assert machine["usd_per_hour"] == (None if ended else rate)
        assert machine["at_least"] == (name == "dark")
    assert found["all_usd"] == pytest.approx(sum(m["usd"] for m in machines.values()), abs=1e-5)
    assert found["all_usd_per_hour"] == 12 and found["all_at_least"]
    text = cli.run("cost").stdout
    assert all(name in text for name in MACHINES) and "at least $63.0" in text


def test_a_machine_adds_up_in_the_digits_that_are_shown() -> None:
    dice, now = random.Random(25), 1_790_000_000.0
    for _ in range(40):
        session, whole = session_of("gone", now), entry_of("20261120-101500-a-0001", now)
        seconds = [sorted(dice.uniform(5 * HOUR, 12 * HOUR) for _ in "ab") for _ in range(4)]
        lines = [
            msgspec.structs.replace(
                whole,
                run=f"run-{at}",
                began=ago(now, began, "gone"),
                finished=ago(now, end, "gone"),
            )
            for at, (end, began) in enumerate(seconds)
        ]
        statement = Statement([session], lines, ago(now, 0, "gone"))
        told = machine_json(MachineCost("gone", MachineState.ENDED, statement))
        (period,) = told["sessions"]
        micro = {key: round(told[key] * 1e6) for key in ("usd", "runs_usd", "idle_usd")}
        assert micro["runs_usd"] + micro["idle_usd"] == micro["usd"]
        assert sum(round(usd * 1e6) for usd in told["runs"].values()) == micro["runs_usd"]
        assert (period["usd"], period["idle_usd"]) == (told["usd"], told["idle_usd"])


def test_the_cents_of_three_machines_add_up_on_the_screen() -> None:
    now = 1_790_000_000.0
    machines = []
    for name in MACHINES:
        # 1.004 dollars each: three times $1.00 would not be the $3.01 of all.
        session = msgspec.structs.replace(
            session_of(name, now), price=Price("1.004", "machine", "session")
        )
        began, ended = ago(now, HOUR, name), ago(now, 0, name)
        session = msgspec.structs.replace(session, began=began, finished=ended, ended=now)
        machines.append(MachineCost(name, MachineState.ENDED, Statement([session], [], ended)))
    here = Statement([], [], ago(now, 0, "here"))

    def cents(texts: Iterable[str]) -> int:
        return round(sum(float(text.split("$")[1].split(",")[0]) for text in texts) * 100)

    *pairs, (_, together) = machine_pairs(here, machines)
    assert cents([together]) == 301
    assert cents(text for _, text in pairs) == 301
    assert cents(row[4] for row in machine_rows(here, machines)) == 301


def test_the_export_has_every_session_and_run_of_every_machine(
    day: tuple[CommandLine, float],
) -> None:
    cli, now = day
    rows: Sequence[Mapping[str, Any]] = list(
        csv.DictReader(io.StringIO(cli.run("cost", "export").stdout))
    )
    spare = 16 * (time.time() - now) / HOUR + 1e-6
    runs = {row["id"]: row for row in rows if row["kind"] == "run"}
    assert {run: row["host"] for run, row in runs.items()} == {r: row[0] for r, row in RUNS.items()}
    for name in MACHINES:
        want = second_by_second(name)
        idle = want.pop("idle")
        (session,) = [row for row in rows if row["kind"] == "session" and row["host"] == name]
        assert float(session["idle_usd"]) == pytest.approx(float(idle), abs=spare)
        for run, amount in want.items():
            assert float(runs[run]["usd"]) == pytest.approx(float(amount), abs=spare)


def test_what_is_not_reached_costs_more_with_every_minute(day: tuple[CommandLine, float]) -> None:
    cli, now = day
    dark = next(m for m in read_machines(cli.state, ["dark", "live"]) if m.name == "dark")
    # Seven hours by now, of which nobody heard anything of the last three.
    assert float(dark.total) == pytest.approx(63, abs=9 * (time.time() - now) / HOUR + 1e-6)
    assert dark.last_reached == pytest.approx(now - 3 * HOUR)
    later = next(m for m in read_machines(cli.state, ["dark", "live"]) if m.name == "dark")
    assert later.total > dark.total


def test_what_its_provider_took_away_costs_nothing_more(day: tuple[CommandLine, float]) -> None:
    cli, now = day
    account = read_account(cli.state, "dark")
    assert account is not None
    gone = msgspec.structs.replace(account, gone=ago(now, 5 * HOUR // 2, "dark"))
    write_account(cli.state, "dark", gone)
    machines = {machine["machine"]: machine for machine in cli.json("cost")["machines"]}
    dark = machines["dark"]
    # Seven hours less the two and a half since then, of which its run had its part.
    assert (dark["state"], dark["usd"]) == ("taken away", pytest.approx(9 * 4.5, abs=1e-6))
    assert dark["runs"]["20261120-101500-d-0004"] == pytest.approx(4.5 * (2 * 1.5 - 0.5), abs=1e-6)
    assert dark["usd_per_hour"] is None and not dark["at_least"]
    assert dark["sessions"][-1]["ended"] is not None
    # It is reached after all: it had been left alone, and costs what it costs.
    write_account(cli.state, "dark", msgspec.structs.replace(gone, missed=None))
    dark = next(m for m in read_machines(cli.state, ["dark", "live"]) if m.name == "dark")
    assert float(dark.total) == pytest.approx(63, abs=9 * (time.time() - now) / HOUR + 1e-6)
