"""Random days of a machine, its clock set, suspended, cut off: the books agree with a second sum.

The reckoning here knows how things really were, second by second, and shares nothing with the
books. `make money` has a thousand days; it is 60 otherwise.
"""

import os
import random
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import pytest

from runners.cost.accounting import add_fractions
from runners.cost.ledger import RunEntry
from runners.cost.sessions import Session, SessionLine
from runners.cost.statement import Statement, open_statement
from runners.host import clock, suspension
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.host.suspension import SuspensionWatch, read_suspensions, suspended_between
from runners.lifecycle.supervisor.record_keeper import place_signs
from runners.model.plan import AssignedGpu
from runners.model.spec import Price
from runners.state.layout import StateDirectory

DAYS = int(os.environ.get("FRESNEL_MONEY_DAYS", "60"))
PARTS = 6
BEGIN = 1_792_900_000_000
"""Milliseconds, as all moments here; a machine's clock knows no more."""
HOUR = 3_600_000
CARDS = 4
INSTANCES = ((3, 7), (2, 7), (1, 7), (1, 7))


class Boot(NamedTuple):
    """From when to when a machine was up, and the steps of its clock: from when it was how wrong.

    `is_right`: its clock was right in the end, and somebody noted a moment after that.
    `suspends`: from when to when it was suspended, and nobody did anything.
    """

    name: str
    start: int
    end: int
    steps: tuple[tuple[int, int], ...]
    is_right: bool
    suspends: tuple[tuple[int, int], ...] = ()

    def awake(self, at: int) -> int:
        """`at`, or when the machine was awake again: before that nothing happens."""
        return next((until for since, until in self.suspends if since <= at < until), at)

    def note(self, at: int) -> Moment:
        """What the program takes for that moment, by the clocks of this machine."""
        Clocks.boot, Clocks.at = self, at
        return moment_now()


class Clocks:
    """The edge: what the kernel says of the time on the machine of the day."""

    boot: ClassVar[Boot]
    at: ClassVar[int]
    CLOCK_BOOTTIME, CLOCK_MONOTONIC = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC
    localtime, strftime = time.localtime, time.strftime

    @classmethod
    def time(cls) -> float:
        wrong = [by for since, by in cls.boot.steps if since <= cls.at][-1]
        return (cls.at + wrong) / 1000

    @classmethod
    def clock_gettime_ns(cls, which: int) -> int:
        up = cls.at - cls.boot.start
        if which == cls.CLOCK_MONOTONIC:
            slept = (min(cls.at, until) - since for since, until in cls.boot.suspends)
            up -= sum(max(0, each) for each in slept)
        return up * 1_000_000


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "time", Clocks)
    monkeypatch.setattr(suspension, "time", Clocks)
    monkeypatch.setattr(clock, "up_ns", lambda: Clocks.clock_gettime_ns(Clocks.CLOCK_BOOTTIME))
    monkeypatch.setattr(clock, "boot_id", lambda: Clocks.boot.name)


class Held(NamedTuple):
    """A run as it really was: what it held, between which moments; `alive`: it holds it still."""

    run: str
    gpus: tuple[str, ...]
    start: int
    end: int
    alive: bool = False


class Day(NamedTuple):
    """What really was, and what was written down of it."""

    runs: list[Held]
    paid: list[tuple[Session, int, int]]
    lines: list[RunEntry]
    now: Moment
    boots: list[Boot]


def card_of(gpu: str) -> str:
    return gpu.split("-")[0]


def fraction_of(gpu: str) -> Fraction:
    _, _, instance = gpu.partition("-")
    return Fraction(*INSTANCES[int(instance)]) if instance else Fraction(1)


def draw_suspends(dice: random.Random, start: int, end: int) -> list[tuple[int, int]]:
    """Times in suspend, one after the other; the machine is awake at its end."""
    ends = sorted(dice.randrange(start + 1, end - 60_000) for _ in range(dice.choice((0, 0, 2, 4))))
    # One of less than a second or two is not told from two clocks read one after the other.
    pairs = zip(ends[::2], ends[1::2], strict=True)
    return [(since, until) for since, until in pairs if until - since > 2000]


def draw_boots(dice: random.Random) -> list[Boot]:
    boots, start = [], BEGIN
    for at in range(dice.choice((1, 1, 2, 3))):
        end = start + dice.randrange(2 * HOUR, 9 * HOUR)
        wrong = [dice.randrange(-4 * HOUR, 4 * HOUR) for _ in range(dice.choice((0, 1, 2)))]
        suspends = draw_suspends(dice, start, end)
        # A clock is set at any time, and most of all after a suspend.
        when: list[Callable[[], int]] = [
            lambda begun=start, over=end: dice.randrange(begun + 1, begun + (over - begun) // 2),
            *(lambda until=until: until for _, until in suspends),
        ]
        moments = sorted(dice.choice(when)() for _ in wrong)
        is_right = dice.random() < 0.8
        # In the end right; or never, but by less than the machine was off.
        last = 0 if is_right else dice.randrange(-400_000, 400_000)
        steps = [(moment, by) for moment, by in zip(moments, [*wrong[1:], last], strict=False)]
        first = wrong[0] if wrong else last
        all_steps = ((start, first), *steps)
        boots.append(Boot(f"boot-{at}", start, end, all_steps, is_right, tuple(suspends)))
        start = end + dice.randrange(HOUR // 4, 3 * HOUR)
    return boots


def is_noted(boot: Boot, runs: list[Held]) -> bool:
    return any(boot.steps[-1][0] <= run.end <= boot.end for run in runs if not run.alive)


def draw_run(dice: random.Random, number: int, boots: list[Boot]) -> tuple[Held, RunEntry]:
    """A run that ended as it should, was cut off, crashed unseen, or lives."""
    name = f"run-{number:04d}"
    gpus = ["g3-" + str(dice.randrange(4))] if dice.random() < 0.2 else []
    gpus = gpus or [f"g{card}" for card in dice.sample(range(3), dice.choice((0, 1, 1, 2, 3)))]
    boot = dice.choice(boots)
    start = boot.awake(dice.randrange(boot.start, boot.end - 60_000))
    # To a hundredth of a second: the kernel's own word of the time since boot has no more.
    end = start + dice.randrange(1000, min(4 * HOUR, boot.end - start)) // 10 * 10
    end = boot.awake(min(end, boot.end))
    began, last = boot.note(start), boots[-1]
    how = dice.choice(("ended", "ended", "crashed", "cut", "lives"))
    later = [other for other in boots if other.start > boot.start]
    finished, seen, alive = boot.note(end), None, False
    if how == "crashed":
        seen = boot.note(end)
        found = dice.choice([boot, *later])
        finished = found.note(found.awake(dice.randrange(max(end, found.start), found.end + 1)))
    elif how == "cut" and gpus and later:
        # The power went while it ran: a line of its GPUs, and some seconds later its last output.
        end = boot.end
        line = boot.note(max(start, end - dice.randrange(1, 10_000)))
        finished = later[0].note(later[0].awake(later[0].start + 40_000))
        seen = place_signs(began, line, [boot.note(end).wall, boot.note(start).wall], finished)
    elif how == "lives" and boot is last:
        end, alive = boot.end, True
    cards = tuple(
        AssignedGpu(
            at,
            gpu,
            "H100",
            at,
            **({"mig_parent": card_of(gpu), "part": INSTANCES[int(gpu[-1])]} if "-" in gpu else {}),
        )
        for at, gpu in enumerate(gpus)
    )
    state = "running" if alive else "done"
    entry = RunEntry(
        name,
        host_name(),
        f"preset-{number % 3}",
        name,
        state,
        cards,
        Price("2.50", "gpu", "preset"),
        began,
        None if alive else finished,
        seen,
    )
    return Held(name, tuple(gpus), start, end, alive), entry


def draw_sessions(dice: random.Random, boots: list[Boot]) -> list[tuple[Session, int, int]]:
    """Sessions one after the other; one goes on over a reboot where the clocks were right."""
    found: list[tuple[Session, int, int]] = []
    free, last = BEGIN, boots[-1]
    for at, boot in enumerate(boots):
        start = max(free, dice.choice((boot.start, dice.randrange(boot.start, boot.end))))
        if start >= boot.end or dice.random() < 0.1:
            continue
        until = at
        while until + 1 < len(boots) and dice.random() < 0.5:
            if not (boots[until].is_right and boots[until + 1].is_right):
                break
            until += 1
        close = boots[until]
        is_open = close is last and dice.random() < 0.5
        end = last.end if is_open else dice.randrange(max(start, close.start) + 1, close.end + 1)
        free = max(end, close.start)
        unit, least = dice.choice(((0, 0), (0, 0), (60, 0), (3600, 0), (1, 600)))
        rate = str(Fraction(dice.randrange(100, 4000)) / 100 // Fraction(1, 100) / 100)
        price = Price(f"{float(Fraction(rate)):.2f}", "machine", "session", "", "", "", unit, least)
        session = Session(
            boot.note(start).wall,
            host_name(),
            price,
            CARDS,
            id=f"session-{at}",
            began=boot.note(start),
            ended=None if is_open else close.note(end).wall,
            finished=None if is_open else close.note(end),
            uuids=("g0", "g1", "g2", "g3"),
        )
        found.append((session, start, end))
    return found


def draw_day(seed: int) -> Day:
    dice = random.Random(seed)
    while True:
        boots = draw_boots(dice)
        drawn = [draw_run(dice, number, boots) for number in range(dice.randrange(5, 40))]
        runs = [held for held, _ in drawn]
        if all(is_noted(boot, runs) for boot in boots if boot.is_right):
            lines = [line for _, line in drawn]
            paid = draw_sessions(dice, boots)
            return Day(runs, paid, lines, boots[-1].note(boots[-1].end), boots)


def reckon(day: Day, session: Session, start: int, end: int) -> dict[str, Fraction]:
    """Who pays how much of a session: moment by moment and GPU by GPU; the rest is idle."""
    moments = {start, end}
    for run in day.runs:
        moments |= {moment for moment in (run.start, run.end) if start < moment < end}
    paid: dict[str, Fraction] = {}
    each = Fraction(session.price.usd_per_hour) / CARDS / HOUR
    order = sorted(moments)
    for before, after in pairwise(order):
        there = [run for run in day.runs if run.start <= before and after <= run.end]
        for run in there:
            for gpu in run.gpus:
                holders = sum(gpu in other.gpus for other in there)
                share = each * fraction_of(gpu) * (after - before) / holders
                paid[run.run] = paid.get(run.run, Fraction(0)) + share
    billed = Fraction(end - start, 1000)
    unit = session.price.unit_s
    if unit:
        billed = Fraction(-(-billed // unit) * unit)
    total = Fraction(session.price.usd_per_hour) * max(billed, session.price.minimum_s) / 3600
    paid["idle"] = total - sum(paid.values(), Fraction(0))
    return {run: amount for run, amount in paid.items() if amount}


def find_suspends(file: Path, boot: Boot) -> float:
    """How long a boot was suspended, by what a process wrote down that looked after each."""
    boot.note(boot.start)
    watch = SuspensionWatch(file)
    for _, until in boot.suspends:
        boot.note(until + 5000)
        watch.poll()
    start, end = boot.note(boot.start), boot.note(boot.end)
    return suspended_between(start, end, read_suspensions(file))


def write_down(state: StateDirectory, day: Day) -> Statement:
    lines: list[RunEntry | SessionLine] = [line for line in day.lines if line.finished is not None]
    lines += [lines[0]] if lines else []
    lines += [SessionLine(session) for session, _, _ in day.paid]
    state.ledger.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    open_ones = [session for session, _, _ in day.paid if session.end is None]
    for session in open_ones:
        state.session.write_bytes(msgspec.json.encode(session))
    books = open_statement(state, [], day.now)
    live = [line for line in day.lines if line.finished is None]
    return Statement(books.sessions, [*books.lines.values(), *live], day.now)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_day_differs_from_a_second_reckoning(
    part: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for seed in range(part, DAYS, PARTS):
        day = draw_day(seed)
        state = StateDirectory(tmp_path_factory.mktemp("day")).create()
        books = write_down(state, day)
        spent: dict[str, Fraction] = {}
        for session, start, end in day.paid:
            account = books.account(next(one for one in books.sessions if one.id == session.id))
            found = {**account.shares, "idle": account.idle}
            wanted = reckon(day, session, start, end)
            assert {run: amount for run, amount in found.items() if amount} == wanted, seed
            assert add_fractions(found.values()) == account.total, seed
            for run, amount in wanted.items():
                spent[run] = spent.get(run, Fraction(0)) + amount
        spending, idle = books.spending(), spent.pop("idle", Fraction(0))
        assert {run: amount for run, amount in spending.runs.items() if amount} == spent, seed
        days = spending.days.values()
        assert add_fractions(total for total, _ in days) == sum(spent.values(), idle), seed
        assert add_fractions(unused for _, unused in days) == idle, seed
        for run in day.runs:
            start, end = books.span(run.run)
            assert end - start == (run.end - run.start) * 1_000_000, (seed, run.run)
        for boot in day.boots:
            slept = sum(until - since for since, until in boot.suspends) / 1000
            assert find_suspends(state.suspensions, boot) == pytest.approx(slept, abs=1e-6), seed
