"""SIGKILL at random moments to launchers, waiters, supervisors and every helper of ours, while runs
are launched, queued, grouped, swept, chained, restarted, stopped and deleted: what must hold, holds.

    python tests/bench/kills.py                    1,000 kills, half an hour on two idle cores
    python tests/bench/kills.py --kills 30 --seed 7

After each kill: every record can be read, no GPU has two owners, none is leased to a run that has
ended. At the end: none is lost but those whose waiter and supervisor were both killed, none was
started more often than its restarts allow, no group is half there, nothing is left over. A program
here never dies of itself but as it was told to, and keeps a journal outside the state folder.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from runners.host.procfs import (  # noqa: E402
    HELPER_MARK,
    all_marks,
    command_of,
    environment_of,
    holders_of,
    parent_of,
    start_ticks,
)
from runners.host.signals import signal_process  # noqa: E402
from runners.lifecycle.control.stop import request_stop  # noqa: E402
from runners.model.endings import EndingCause  # noqa: E402
from runners.model.errors import FresnelError  # noqa: E402
from runners.model.run import Run  # noqa: E402
from runners.model.states import State  # noqa: E402
from runners.state.layout import StateDirectory  # noqa: E402
from runners.state.leases import held_leases, live_run_ids  # noqa: E402
from runners.state.runs import list_run_ids, read_run  # noqa: E402
from tests.bench.kills_workload import Launch, Workload, is_of  # noqa: E402

_SETTLED_WITHIN_S = 240.0
_LAUNCHES_WITHIN_S = 10.0


class Report(NamedTuple):
    """What became of it all: kills by kind of process, runs by how they ended, what is wrong."""

    kills: Counter[str]
    endings: Counter[str]
    excused: int
    """Runs whose end nobody saw: waiter and supervisor were both killed."""
    wrong: list[str]
    seconds: float

    def lines(self) -> Iterator[str]:
        """The figures, as they are printed."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kills.most_common())
        yield f"{sum(self.kills.values())} kills in {self.seconds:.0f} s: {kinds}"
        yield f"{sum(self.endings.values())} runs: " + ", ".join(
            f"{how} {count}" for how, count in self.endings.most_common()
        )
        yield f"{self.excused} with waiter and supervisor killed; wrong: {len(self.wrong)}"
        yield from self.wrong


class Killer:
    """Finds our processes by kind and kills one at random; notes whose they were."""

    def __init__(self, work: Workload, seed: int) -> None:
        self.work, self.chance = work, random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.supervisors: set[str] = set()
        self.waiters: set[str] = set()
        self._launches_until = 0.0

    def victims(self) -> dict[str, list[tuple[int, int, str]]]:
        """Pid, start in clock ticks and run of every process that may be killed, by its kind."""
        found: dict[str, list[tuple[int, int, str]]] = {}
        root = str(self.work.state.root)
        for name in os.listdir("/proc"):  # noqa: PTH208
            if not name.isdigit():
                continue
            pid = int(name)
            words = command_of(pid)
            kind = "launcher" if pid in self.work.commands else ""
            if not kind and any(word.startswith(root) for word in words):
                kind = self._kind_of(pid, words)
            ticks = start_ticks(pid) if kind else None
            if ticks is not None:
                run = next((word for word in words if word in self._live), "")
                run = run or _run_in(words, f"{root}/runs/")
                found.setdefault(kind, []).append((pid, ticks, run))
        return found

    def _kind_of(self, pid: int, words: list[str]) -> str:
        if "fresnel-waiter" in words:
            # The program's own shell, until it becomes the program, has the same words.
            return "waiter" if "fresnel-waiter" not in command_of(parent_of(pid) or 0) else ""
        return (environment_of(pid) or {}).get(HELPER_MARK, "")

    def kill(self) -> bool:
        """Kill one process of a kind that is chosen first, so that rare ones come too."""
        self._live = set(live_run_ids(self.work.state))
        found = self.victims()
        if time.monotonic() < self._launches_until:
            found.pop("launcher", None)
        if not found:
            return False
        kind = self.chance.choice(sorted(found))
        pid, ticks, run = self.chance.choice(found[kind])
        if kind == "launcher":
            self.work.killed.add(pid)
            # On a busy machine no launch would come to its end before the next kill.
            self._launches_until = time.monotonic() + _LAUNCHES_WITHIN_S
        else:
            self._launches_until = 0.0
        if kind == "supervisor":
            self.supervisors.add(run)
        if kind == "waiter":
            self.waiters.add(run)
        if not signal_process(pid, ticks, signal.SIGKILL):
            return False
        self.kills[kind] += 1
        return True


def _run_in(words: list[str], folder: str) -> str:
    return next((word[len(folder) :].split("/")[0] for word in words if folder in word), "")


def check_now(state: StateDirectory) -> Iterator[str]:
    """What must hold at every moment. Seen twice: between two reads of one look, runs go on."""
    yield from {*_look(state)} & {*_look(state)}


def _look(state: StateDirectory) -> Iterator[str]:
    for run_id in live_run_ids(state):
        try:
            read_run(state, run_id)
        except Exception as error:
            yield f"{run_id} cannot be read: {error!r}"
    for uuid, leases in held_leases(state).items():
        if len(leases) > 1:
            yield f"{uuid} is leased to {', '.join(lease.run for lease in leases)}"
        for lease in leases:
            ended = not state.live_marker(lease.run).exists()
            if ended and not holders_of(
                state.run(lease.run).run_lock, state.run(lease.run).output
            ) | {*all_marks().get(lease.run, ())}:
                yield f"{uuid} is leased to {lease.run}, which has ended"


def settle(work: Workload) -> Iterator[str]:
    """Let everything that lives come to its end; what does not is wrong."""
    work.command("drain", "off")
    until = time.monotonic() + _SETTLED_WITHIN_S
    while live_run_ids(work.state) and time.monotonic() < until:
        work.command("list")
        time.sleep(0.5)
    for run_id in live_run_ids(work.state):
        run = read_run(work.state, run_id)
        yield f"{run_id} never ended: {run.state}, {run.reason}"
        with suppress(FresnelError):
            request_stop(work.state, run, force=True)
    for run_id, pids in all_marks().items():
        if work.state.run(run_id).path.is_dir():
            yield f"{run_id} left processes: {pids}"


def judge(work: Workload, killer: Killer) -> Report:
    """What became of every run."""
    state, wrong, endings, excused = work.state, [*work.wrong], Counter[str](), 0
    journal = Counter[str]()
    with suppress(FileNotFoundError):
        journal.update((work.folder / "journal").read_text().splitlines())
    ids = [*list_run_ids(state), *(path.name for path in state.trash.glob("*-*"))]
    for launch in work.launches:
        mine = [run_id for run_id in ids if is_of(run_id, launch.name)]
        runs = [read_run(state, run_id) for run_id in mine if state.run(run_id).path.is_dir()]
        begun = [run for run in runs if not _is_interrupted(run)]
        if len(runs) == len(mine) and len(begun) not in (0, launch.runs):
            wrong.append(f"{launch.name} is half there: {len(begun)} of {launch.runs}")
        for run_id in mine:
            starts = journal[f"{run_id} start"]
            if starts > launch.starts or journal[f"{run_id} twice"]:
                wrong.append(f"{run_id} was started {starts} times")
            if journal[f"{run_id} shares-a-gpu"]:
                wrong.append(f"{run_id} shared a GPU")
        for run in runs:
            endings[f"{run.state}"] += 1
            both = run.id in killer.waiters and run.id in killer.supervisors
            problem = _problem_of(run, launch, work, journal[f"{run.id} end"])
            excused += bool(problem) and both
            if problem and not both:
                wrong.append(problem)
    return Report(killer.kills, endings, excused, wrong, 0.0)


def _is_interrupted(run: Run) -> bool:
    return run.ending is not None and run.ending["cause"] is EndingCause.INTERRUPTED


def _problem_of(run: Run, launch: Launch, work: Workload, ends: int) -> str:
    """Why a run's recorded ending is not what its program and the commands say; empty if it is."""
    if run.id in work.stopped and run.state in (State.STOPPED, State.CANCELLED):
        return ""
    if _is_interrupted(run) and not ends:
        return ""
    if (run.state, run.exit_code) == (State.FAILED if launch.code else State.DONE, launch.code):
        return "" if ends else f"{run.id} is {run.state}, and its program never came to its end"
    return f"{run.id} is {run.state} ({run.reason}), its program ended {ends} times"


def kill_at_random(folder: Path, kills: int, seed: int, every_s: float) -> Report:
    """Work in `folder`, with so many kills, about `every_s` seconds apart."""
    folder.mkdir(parents=True, exist_ok=True)
    state = StateDirectory(folder / "state").create()
    work = Workload(folder, state, seed)
    killer, problems = Killer(work, seed + 1), Counter[str]()
    began = time.monotonic()
    threads = [threading.Thread(target=work.run, args=(n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        while sum(killer.kills.values()) < kills:
            time.sleep(killer.chance.expovariate(1 / every_s))
            if killer.kill():
                problems.update(check_now(state))
        # On a busy machine few launches come to their end between kills: some are to.
        until = time.monotonic() + _SETTLED_WITHIN_S
        while _done(state) < 2 and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        work.over.set()
        for thread in threads:
            thread.join()
    problems.update(settle(work))
    report = judge(work, killer)
    wrong = [*report.wrong, *(f"{text} (seen {n} times)" for text, n in problems.items())]
    end_helpers(killer)
    return report._replace(wrong=wrong, seconds=time.monotonic() - began)


def _done(state: StateDirectory) -> int:
    found = 0
    for run_id in list_run_ids(state):
        with suppress(FresnelError, OSError):  # it is being deleted
            found += read_run(state, run_id).state is State.DONE
    return found


def end_helpers(killer: Killer) -> None:
    """End the guard and the sampler, which outlive runs."""
    killer._live = set()
    for pid, ticks, _ in (entry for found in killer.victims().values() for entry in found):
        signal_process(pid, ticks, signal.SIGKILL)


def main() -> int:
    """Print the figures; exit with 1 when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--folder", type=Path, help="work there, and leave it (must be empty)")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="fresnel-kills-"))
    report = kill_at_random(folder, arguments.kills, arguments.seed, arguments.every)
    print(f"in {folder}", *report.lines(), sep="\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
