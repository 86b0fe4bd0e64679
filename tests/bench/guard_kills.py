"""SIGKILL at random moments to guards and keepers, in every stage: each acts once, in time.

    python tests/bench/guard_kills.py                    1,000 kills, four guards at a time
    python tests/bench/guard_kills.py --kills 20 --seed 7

Half of the guards wait for no run on a machine where nothing else lives: nobody but the keeper could
take their place. The others stop a run that takes a while to save. A kill hits guard or keeper, once
both live: killed at the same moment, only a systemd or the next command brings them back.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from runners.cost.sessions import start_session  # noqa: E402
from runners.guard.keeper import (  # noqa: E402
    ensure_guard,
    guard_lock,
    keeper_lock,
)
from runners.guard.rule import Stage, lift, new_rule, read_guard_state, set_rule  # noqa: E402
from runners.host.locks import is_held  # noqa: E402
from runners.lifecycle.control.start import start_together  # noqa: E402
from runners.presets.load import command_spec  # noqa: E402
from runners.state.layout import StateDirectory  # noqa: E402

IN_TIME_S = 10.0
_GIVEN_UP_AFTER_S = 240.0
_WATCHED_S, _COUNTDOWN_S = 5.0, 3.0
_SAVES = "import signal, sys, time; signal.signal(2, lambda *_: (time.sleep(1), sys.exit(0))); "
_SAVES += "time.sleep(600)"


class Trial(NamedTuple):
    """One guard: where it was killed, how late it acted and how long none lived (s), what is wrong."""

    kills: Counter[str]
    away_s: list[float]
    late_s: float
    wrong: list[str]


class Report(NamedTuple):
    """All of them."""

    trials: list[Trial]
    seconds: float

    @property
    def wrong(self) -> list[str]:
        """What is wrong with any of them."""
        return [problem for trial in self.trials for problem in trial.wrong]

    def lines(self) -> Iterator[str]:
        """The figures, as they are printed."""
        kills = sum((trial.kills for trial in self.trials), Counter[str]())
        late = sorted(trial.late_s for trial in self.trials)
        away = sorted(seconds for trial in self.trials for seconds in trial.away_s) or [0.0]
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(kills.items()))
        yield f"{sum(kills.values())} kills in {self.seconds:.0f} s: {kinds}"
        yield f"no guard for {away[len(away) // 2]:.2f} s (median), {away[-1]:.2f} s (most)"
        yield (
            f"{len(late)} guards, late by {late[len(late) // 2]:.1f} s (median), {late[-1]:.1f} s "
            f"(most); wrong: {len(self.wrong)}"
        )
        yield from self.wrong


def kill_guards(
    folder: Path, kills: int, seed: int, at_a_time: int = 4, in_time_s: float = IN_TIME_S
) -> Report:
    """Guards until so many kills have hit; state folders are made in `folder`."""
    began, trials, number = time.monotonic(), list[Trial](), 0
    report = Report(trials, 0.0)
    with ThreadPoolExecutor(at_a_time) as pool:
        while sum(trial.kills.total() for trial in trials) < kills:
            seeds = range(seed * 100_000 + number, seed * 100_000 + number + at_a_time)
            number += at_a_time
            trials += pool.map(
                lambda chosen: _try_one(folder / str(chosen), chosen, in_time_s), seeds
            )
            # So far: who is cut short knows what there was.
            report = Report(trials, time.monotonic() - began)
            print(*report.lines(), f"load {os.getloadavg()[0]:.0f}", sep="; ", flush=True)
    return report


def _try_one(folder: Path, seed: int, in_time_s: float) -> Trial:
    chance, state = random.Random(seed), StateDirectory(folder / "state").create()
    ended = folder / "ended"
    end = f"date +%s.%N >> {ended}; sleep {chance.uniform(0, 3):.2f}"
    warn = f"echo warned >> {folder / 'warned'}"
    limit = {"no_run_s": _WATCHED_S}
    if seed % 2:
        start_session(state, "1", 1, "now")
        start_together(state, [command_spec([sys.executable, "-S", "-c", _SAVES])])
        limit = {"max_age_s": _WATCHED_S + _COUNTDOWN_S}
    rule = new_rule(countdown_s=_COUNTDOWN_S, end_command=end, warn_command=warn, **limit)
    set_rule(state, rule)
    due = time.time() + _WATCHED_S + _COUNTDOWN_S
    ensure_guard(state)
    kills, away = _kill_until_ended(state, chance)
    warned_by = time.monotonic() + _GIVEN_UP_AFTER_S
    # The warning is a process of its own, which may come last.
    while not _lines(folder / "warned") and time.monotonic() < warned_by:
        time.sleep(0.03)
    wrong = [f"{folder.name}: {problem}" for problem in _find_wrong(state, folder)]
    acted = [float(line) for line in _lines(ended)]
    late = max(acted, default=float("inf")) - due
    if late > in_time_s:
        wrong.append(f"{folder.name}: acted {late:.1f} s late")
    lift(state)
    return Trial(kills, away, late, wrong)


def _kill_until_ended(
    state: StateDirectory, chance: random.Random
) -> tuple[Counter[str], list[float]]:
    kills, away = Counter[str](), list[float]()
    deadline = time.monotonic() + _GIVEN_UP_AFTER_S
    while time.monotonic() < deadline:
        pause = time.monotonic() + chance.uniform(0.1, 4.0)
        while time.monotonic() < pause or not _both_live(state):
            if _stage(state) is Stage.ENDED or time.monotonic() > deadline:
                return kills, away
            time.sleep(0.03)
        name = chance.choice(["guard", "guard", "keeper"])
        lock = guard_lock(state) if name == "guard" else keeper_lock(state)
        stage, killed = _stage(state), _kill(lock)
        if not killed:
            continue
        kills[f"{name} {stage}"] += 1
        if name == "guard":
            away.append(_wait_for_another(lock, killed, deadline))
    return kills, away


def _wait_for_another(lock: Path, killed: int, deadline: float) -> float:
    """Seconds until another process than `killed` holds the lock."""
    began = time.monotonic()
    while time.monotonic() < deadline and (
        not is_held(lock) or lock.read_text() in ("", f"{killed}\n")
    ):
        time.sleep(0.002)
    return time.monotonic() - began


def _both_live(state: StateDirectory) -> bool:
    locks = (guard_lock(state), keeper_lock(state))
    # Two processes: a keeper that has just become the guard holds both locks for a moment.
    return all(map(is_held, locks)) and len({lock.read_text() for lock in locks} - {""}) == 2


def _kill(lock: Path) -> int:
    """The pid that was killed; 0 where there was none."""
    try:
        pid = int(lock.read_text())
        if b"runners.guard." not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return 0  # it has taken its lock and not written its pid yet
    return pid


def _stage(state: StateDirectory) -> Stage:
    progress = read_guard_state(state)
    return Stage.WATCHING if progress is None else progress.stage


def _find_wrong(state: StateDirectory, folder: Path) -> Iterator[str]:
    if _stage(state) is not Stage.ENDED:
        yield f"stands at {_stage(state)}"
    for name in ("warned", "ended"):
        times = len(_lines(folder / name))
        if times != 1:
            yield f"{name} {times} times"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def main() -> int:
    """Kill, print the figures; exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-a-time", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="guard-kills-", ignore_cleanup_errors=True) as folder:
        report = kill_guards(Path(folder), arguments.kills, arguments.seed, arguments.at_a_time)
        print("\n".join(report.lines()))
        time.sleep(6.0)  # guards that were lifted leave at their next look
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
