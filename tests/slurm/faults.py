"""Random faults of a cluster over runs of ours, and what must hold of each run afterwards.

Every program keeps a journal outside the state folder: by that it is judged what is recorded.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from runners.host.procfs import command_of, marked_processes, read_processes
from runners.lifecycle.launch.adopt import settle_jobs
from runners.model.endings import EndingCause, JobEnd
from runners.slurm.queue import refresh
from runners.state.jobs import read_job
from runners.state.layout import RunDirectory
from runners.state.leases import live_run_ids
from tests.process.conftest import record
from tests.slurm.cluster import Cluster
from tests.support import eventually

_SETTLED_WITHIN_S = 180.0
_MOST_OFF_S = 120
"""Munge takes nobody's word whose clock is off by five minutes."""
_REGISTERS_EVERY_S = 20.0
"""Nodes here are back within seconds, before a controller counts what they no longer have as lost:
they say so again.
"""
_PROGRAM = """\
import fcntl, os, signal, sys, time
journal = open(sys.argv[1], "a", buffering=1)
alone = open(sys.argv[1] + ".lock", "w")
def end(*_):
    print("saved", file=journal)
    sys.exit(0)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("began", file=journal)
except OSError:
    print("twice", file=journal)
time.sleep(float(sys.argv[2]))
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("finished", file=journal)
"""
_MEANS = {
    JobEnd.CANCELLED: {"cancel"},
    JobEnd.REQUEUED: {"requeue", "preempt", "fill_spool"},
    JobEnd.PREEMPTED: {"preempt"},
    JobEnd.NODE_FAILED: {"crash_node", "lose_node", "kill_slurmd", "shift_clock", "fill_spool"},
    # Processes of a node that crashes are killed one after the other here: Slurm sees some fail.
    JobEnd.FAILED: {"kill_body", "crash_node", "kill_slurmd", "shift_clock", "fill_spool"},
    JobEnd.COMPLETED: {"kill_body"},
    JobEnd.UNKNOWN: {"cancel", "requeue", "preempt", "lose_node"},
}
"""By which faults a job may end so."""


class Report(NamedTuple):
    """Faults by kind, runs by how they ended, and whatever did not hold."""

    faults: Counter[str]
    endings: Counter[str]
    problems: list[str]


class Trial:
    """Runs, and faults at random moments of them; the same `seed`, the same faults."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.folder = cluster.line.folder / f"trial-{seed}"
        self.folder.mkdir()
        self.done: dict[str, set[str]] = {}
        """The faults that each run has met."""
        self.faults: Counter[str] = Counter()

    def run(self, runs: int, faults: int) -> Report:
        """Launch so many runs, do so many faults, wait until all has settled, and judge."""
        launched = self._launch(runs)
        self.done = {run.id: set() for run in launched}
        for _ in range(faults):
            time.sleep(self.random.uniform(0.0, 0.5))
            self._fault(self.random.choice(launched))
        self._settle()
        endings = Counter(f"{record(run).get('state')}" for run in launched)
        problems = [text for run in launched for text in self._problems(run)]
        return Report(self.faults, endings, problems)

    def _launch(self, runs: int) -> list[RunDirectory]:
        """Half of them as one array of jobs, the others each by itself."""
        program = self.folder / "program.py"
        program.write_text(_PROGRAM)
        chosen = self.random.sample(range(50, 600), runs)
        numbers = [f"{number / 100:.2f}" for number in chosen]
        half = max(2, runs // 2)
        ids = []
        for some in (numbers[:half], *([number] for number in numbers[half:])):
            words = ("--slurm", "--gpus", "0", "--mem", "200M", "--set", "restart.times=9")
            words += ("--set", "restart.backoff=0.1", "--set", f"seconds={','.join(some)}")
            command = (sys.executable, "-IS", str(program))
            journal = str(self.folder / "journal-{seconds}")
            done = self.cluster.line.run("launch", *words, "--", *command, journal, "{seconds}")
            ids += done.stdout.split()
        return [self.cluster.line.state.run(run_id) for run_id in ids]

    # ── faults ────────────────────────────────────────────────────────────────────────────────────

    def _fault(self, run: RunDirectory) -> None:
        kinds = [name.removeprefix("_do_") for name in dir(self) if name.startswith("_do_")]
        kind = self.random.choice(sorted(kinds))
        is_of_run = getattr(self, f"_do_{kind}")(run)
        if is_of_run is None:
            return  # it cannot be done on this machine
        self.faults[kind] += 1
        for met in [run.id] if is_of_run else self.done:
            self.done[met].add(kind)

    def _try(self, *words: str) -> None:
        """Ask Slurm for something that it may refuse: its job has ended, say."""
        with suppress(AssertionError):
            self.cluster.lab.call(*words)

    def _job(self, run: RunDirectory) -> str:
        note = read_job(run)
        return note.id if note is not None else ""

    def _node(self) -> str:
        return self.random.choice(self.cluster.lab.nodes)

    def _do_cancel(self, run: RunDirectory) -> bool:
        self._try("scancel", self._job(run))
        return True

    def _do_requeue(self, run: RunDirectory) -> bool:
        self._try("scontrol", "requeue", self._job(run))
        return True

    def _do_stop(self, run: RunDirectory) -> bool:
        self.cluster.line.run("stop", run.id, exits=None)
        return True

    def _do_kill_body(self, run: RunDirectory) -> bool:
        _kill(record(run).get("supervisor_pid"), run.id, "cmdline")
        return True

    def _do_kill_program(self, run: RunDirectory) -> bool:
        _kill(record(run).get("leader_pid"), run.id, "environ")
        return True

    def _do_kill_controller(self, run: RunDirectory) -> bool:
        self.cluster.lab.kill("slurmctld")
        self._look_while_broken()
        return False

    def _do_hang_controller(self, run: RunDirectory) -> bool:
        self.cluster.lab.freeze("slurmctld")
        self._look_while_broken()
        return False

    def _do_kill_munge(self, run: RunDirectory) -> bool:
        self.cluster.lab.kill("munged")
        self._look_while_broken()
        return False

    def _do_kill_slurmd(self, run: RunDirectory) -> bool:
        self.cluster.lab.kill("slurmd", self._node())
        self._look_while_broken()
        return False

    def _do_crash_node(self, run: RunDirectory) -> bool:
        self.cluster.lab.crash_node(self._node())
        self._look_while_broken()
        return False

    def _do_lose_node(self, run: RunDirectory) -> bool:
        self.cluster.lab.lose_node(self._node())
        self._look_while_broken()
        return False

    def _do_preempt(self, run: RunDirectory) -> bool:
        self.cluster.lab.submit("sleep 0.5", "--exclusive", "--partition=urgent", "--mem=0")
        return False

    def _do_fill_spool(self, run: RunDirectory) -> bool | None:
        node = self._node()
        if not self.cluster.lab.fill_spool(node):
            return None
        # What has room there is killed, and something begins that has none.
        self._try("scontrol", "requeue", self._job(run))
        self.done[run.id].add("requeue")
        self._look_while_broken()
        return False

    def _do_shift_clock(self, run: RunDirectory) -> bool | None:
        off = self.random.choice((-1, 1)) * self.random.randint(5, _MOST_OFF_S)
        if not self.cluster.lab.shift_clock(self._node(), off):
            return None
        self._look_while_broken()
        return False

    def _do_hang_squeue(self, run: RunDirectory) -> bool:
        tools, path = self.folder / "tools", os.environ["PATH"]
        tools.mkdir(exist_ok=True)
        (tools / "squeue").write_text("#!/bin/sh\nexec sleep 30\n")
        (tools / "squeue").chmod(0o700)
        os.environ["PATH"] = f"{tools}:{path}"
        try:
            self._look_while_broken()
        finally:
            os.environ["PATH"] = path
        return False

    def _do_lose_login(self, run: RunDirectory) -> bool:
        """Whatever somebody does there is killed at a random moment, and who settles for him."""
        what = self.random.choice((["status", run.id], ["list"], ["stop", run.id], ["cost"]))
        doing = self.cluster.line.begin(*what)
        if what[0] == "stop":
            self.done[run.id].add("stop")
        time.sleep(self.random.uniform(0.0, 0.6))
        doing.kill()
        doing.communicate()
        root = str(self.cluster.line.state.root)
        for pid in read_processes():
            argv = command_of(pid)
            if root in argv and argv[-1:] != ["--job"] and "supervisor.py" in " ".join(argv):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        return False

    def _look_while_broken(self) -> None:
        state = self.cluster.line.state
        refresh(state, every_s=0.0, within_s=1.0)
        settle_jobs(state, live_run_ids(state))
        time.sleep(self.random.uniform(0.0, 0.5))
        self.cluster.lab.heal()

    # ── what must hold ────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        """Wait until every run has its ending recorded, as if somebody looked now and then."""
        state = self.cluster.line.state
        registered = time.monotonic()
        self.cluster.lab.heal()
        # Each look while it was broken has doubled the pause before the next.
        refresh(state, every_s=0.0)

        def is_over() -> bool:
            nonlocal registered
            self.cluster.lab.heal()
            if time.monotonic() > registered + _REGISTERS_EVERY_S:
                self._try("scontrol", "reconfigure")
                registered = time.monotonic()
            refresh(state, every_s=1.0)
            settle_jobs(state, live_run_ids(state))
            return not live_run_ids(state)

        with suppress(AssertionError):
            eventually(is_over, _SETTLED_WITHIN_S)

    def _problems(self, run: RunDirectory) -> list[str]:
        """What does not hold of a run."""
        found, met = record(run), self.done[run.id]
        seconds = self.cluster.line.json("status", run.id)["command"][-1]
        lines = _lines(self.folder / f"journal-{seconds}")
        begun, state = lines.count("began"), found.get("state")
        wrong = []
        if run.home.live_marker(run.id).exists() or marked_processes(run.id):
            wrong.append("lost: no ending is recorded, or something of it is left")
        if "twice" in lines:
            wrong.append("started twice at the same time")
        if begun > found.get("attempt", 1):
            wrong.append(f"started {begun} times for {found.get('attempt')} attempts")
        if state == "done" and "finished" not in lines:
            wrong.append("told done, and did not finish")
        if "finished" in lines and lines[-1] == "finished" and state in ("failed", "lost"):
            wrong.append("told failed, and had finished")
        if state == "lost" and "kill_controller" not in met:
            wrong.append("told lost, and no controller had forgotten its job")
        wrong += _wrong_cause(found, met)
        return [f"{run.id}: {text}; {found}; faults {sorted(met)}; {lines}" for text in wrong]


def _wrong_cause(found: dict[str, Any], met: set[str]) -> list[str]:
    """Whether a cause is recorded that never was."""
    ending = found.get("ending") or {}
    cause, end = ending.get("cause"), ending.get("job_end")
    if cause in (EndingCause.STOPPED, EndingCause.CANCELLED) and "stop" not in met:
        return [f"told {cause}, which nobody asked for"]
    if cause == EndingCause.SLURM and not _MEANS.get(JobEnd(end), set()) & met:
        return [f"told that its job {end}, which it did not"]
    if cause == EndingCause.SIGNALLED and not {"kill_program", "kill_body"} & met:
        return ["told killed by a signal, which nobody sent"]
    if cause == EndingCause.NOT_STARTED and "kill_controller" not in met:
        return ["told not started, and Slurm had its job"]
    return []


def _lines(journal: Path) -> list[str]:
    return journal.read_text().split() if journal.exists() else []


def _kill(pid: int | None, run_id: str, file: str) -> None:
    """Kill a process of a run, which `file` of its folder in /proc names."""
    with suppress(OSError):
        if pid and run_id.encode() in Path(f"/proc/{pid}/{file}").read_bytes():
            os.kill(pid, signal.SIGKILL)
