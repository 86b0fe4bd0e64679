"""Random runs on disk, as supervisors leave them, of which surfaces that show one fact are asked.

`hosts()` is a hypothesis strategy for a machine with GPUs and runs; `World.write` puts it on disk
by the structs that the program itself reads, and a process of its own holds the locks of the runs
that live. A pair test draws a host, writes it, and compares what the surfaces say:

    @given(host=hosts())
    def test_…(worlds: Worlds, host: DrawnHost) -> None:
        with worlds(host) as world:
            for run in world.runs(): …

In `hosts(adoptable=False)` nothing is orphaned or found lost, which a command would adopt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from hypothesis import strategies as st

from runners.gpus.usage import usage_file
from runners.host.clock import Moment, moment_now
from runners.host.identity import boot_id, host_name
from runners.host.locks import is_held
from runners.model.endings import Ending, EndingCause
from runners.model.gpus import GpuReading, GpuSnapshot, GpuUse, HostSnapshot, RunUsage
from runners.model.health import Condition, Health
from runners.model.plan import AssignedGpu, Estimate, Origin
from runners.model.run import Labels, QueueStatus, Run, RunRecord, StopProgress
from runners.model.spec import Price
from runners.model.states import State
from runners.model.vendors import Vendor
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import list_runs
from runners.watch.metrics.final_maker import keep_final
from tests.support import make_plan

HOLDER = """
import fcntl, os, sys
held = []
for line in sys.stdin:
    if path := line.rstrip():
        held.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        fcntl.flock(held[-1], fcntl.LOCK_EX)
    else:
        while held: os.close(held.pop())
    print(flush=True)
"""
GIB = 1 << 30
_SAID = "ValueError: no such layer"
ENDINGS: tuple[tuple[State, int | None, Ending | None], ...] = (
    (State.DONE, 0, Ending(cause=EndingCause.COMPLETED)),
    (State.DONE, 0, Ending(cause=EndingCause.COMPLETED, error=_SAID, left=["python a.py"])),
    (State.FAILED, 1, Ending(cause=EndingCause.FAILED)),
    (State.FAILED, 1, Ending(cause=EndingCause.FAILED, error=_SAID)),
    (State.FAILED, 1, Ending(cause=EndingCause.FAILED, summary="out of GPU memory", rank=3)),
    (State.FAILED, 137, Ending(cause=EndingCause.SIGNALLED, signal="SIGKILL", memory_kills=1)),
    (State.FAILED, None, Ending(cause=EndingCause.INTERRUPTED)),
    (State.FAILED, 1, Ending(cause=EndingCause.FAILED, holding=[(0, 4711), (None, 4712)])),
    (State.FAILED, 1, None),
    (State.STOPPED, 0, Ending(cause=EndingCause.STOPPED, by="anna")),
    (State.STOPPED, 143, Ending(cause=EndingCause.LIMIT, signal="SIGTERM", usd="5")),
    (State.STOPPED, 130, Ending(cause=EndingCause.GUARD, rule="budget", detail="$5 are spent")),
    (State.STOPPED, 143, Ending(cause=EndingCause.LOGOUT, detail="with its user's login")),
    (State.CANCELLED, None, Ending(cause=EndingCause.CANCELLED, by="anna")),
    (State.LOST, None, Ending(cause=EndingCause.REBOOTED, rebooted=1.79e9)),
    (State.UNSEEN, None, Ending(cause=EndingCause.UNSEEN, line="epoch 3 of 9")),
    (State.DONE, None, Ending(cause=EndingCause.COMPLETED, announced=0)),
    (State.FAILED, None, Ending(cause=EndingCause.FAILED, announced=1)),
    (State.LOST, None, Ending(cause=EndingCause.UNKNOWN)),
)
"""Ways to end, with exit codes; None for a cause that only a newer version knows."""
LIVE = (State.QUEUED, State.STARTING, State.RUNNING, State.STOPPING, State.ORPHANED)
NEVER_STARTED = (State.QUEUED, State.STARTING, State.CANCELLED)
METRICS = ("loss", "psnr", "acc", "val/loss")


class DrawnGpu(NamedTuple):
    """A GPU of the host: a whole card, or with `parent` a MIG instance of that card."""

    vendor: Vendor
    parent: int | None
    utilization: float | None
    memory_used: int | None
    problem: str | None


class DrawnFile(NamedTuple):
    """A checkpoint: seconds since it was written, and whether a pattern or only the output says."""

    age_s: float
    patterned: bool


class DrawnRun(NamedTuple):
    """A run as it was drawn; `gpus` are places among the host's GPUs, `steps` the metrics of each
    step as the program told them, None for a value that was not finite.
    """

    state: State
    exit_code: int | None
    ending: Ending | None
    gpus: tuple[int, ...]
    shares: bool
    speaks: Literal["events", "output", "nothing"]
    steps: tuple[dict[str, float | None], ...]
    total_steps: int | None
    seconds: float
    attempt: int
    checkpoints: tuple[DrawnFile, ...]
    health: tuple[Condition, float] | None
    estimate_s: float | None
    price: str | None
    labels: Labels
    place: int
    never: bool


class DrawnHost(NamedTuple):
    """A machine: its GPUs, its runs, oldest first, and how its processors are."""

    gpus: tuple[DrawnGpu, ...]
    runs: tuple[DrawnRun, ...]
    load: HostSnapshot


@st.composite
def hosts(draw: st.DrawFn, adoptable: bool = True, most_runs: int = 4) -> DrawnHost:
    """A machine with up to four GPUs and at least one run."""
    vendor: Vendor = draw(st.sampled_from(["nvidia", "amd", "simulated-nvidia", "simulated-amd"]))
    gpus: list[DrawnGpu] = []
    for _ in range(draw(st.integers(0, 3))):
        gpus.append(draw(_gpus(vendor, None)))
        if vendor == "nvidia" and draw(st.booleans()):
            at = len(gpus) - 1
            gpus += [draw(_gpus(vendor, at)) for _ in range(draw(st.integers(1, 2)))]
    given = [i for i, gpu in enumerate(gpus) if all(other.parent != i for other in gpus)]
    runs = draw(st.lists(_runs(given, adoptable), min_size=1, max_size=most_runs))
    return DrawnHost(tuple(gpus), tuple(runs), draw(_LOADS))


def _gpus(vendor: Vendor, parent: int | None) -> st.SearchStrategy[DrawnGpu]:
    return st.builds(
        DrawnGpu,
        st.just(vendor),
        st.just(parent),
        st.none() | st.integers(0, 100).map(float),
        st.none() | st.integers(0, 80).map(lambda gib: gib * GIB),
        st.sampled_from([None, None, None, "GPU is lost"]),
    )


@st.composite
def _runs(draw: st.DrawFn, given: list[int], adoptable: bool) -> DrawnRun:
    lives = LIVE if adoptable else LIVE[:-1]
    ways = [(state, None, None) for state in lives] + list(ENDINGS)
    state, code, ending = draw(st.sampled_from(ways))
    began = _began(state, ending)
    values = st.none() | st.floats(-9, 99, width=16)
    names = draw(st.lists(st.sampled_from(METRICS), unique=True, min_size=1))
    told = st.lists(st.fixed_dictionaries(dict.fromkeys(names, values)), max_size=6)
    gpus = draw(st.lists(st.sampled_from(given), unique=True, max_size=2)) if given else []
    return DrawnRun(
        state,
        code,
        ending,
        () if state is State.QUEUED else tuple(sorted(gpus)),
        draw(st.booleans()),
        draw(st.sampled_from(["events", "output", "nothing"])) if began else "nothing",
        tuple(draw(told)),
        draw(st.sampled_from([None, 6, 100])),
        draw(st.integers(1, 20_000).map(float)),
        draw(st.integers(1, 3)) if began else 1,
        tuple(draw(st.lists(_FILES, max_size=3))) if began else (),
        draw(
            st.none() | st.tuples(st.sampled_from(list(Condition)), st.sampled_from([1.0, 600.0]))
        ),
        draw(st.sampled_from([None, 60.0, 36_000.0])),
        draw(st.sampled_from([None, "1.99"])),
        draw(_LABELS),
        draw(st.integers(1, 9)),
        draw(st.booleans()),
    )


def _began(state: State, ending: Ending | None) -> bool:
    """Whether its program ever started."""
    interrupted = ending is not None and ending["cause"] is EndingCause.INTERRUPTED
    return state not in NEVER_STARTED and not interrupted


_FILES = st.builds(DrawnFile, st.sampled_from([5.0, 60.0, 9e6]), st.booleans())
_LOADS = st.builds(
    HostSnapshot,
    cpu_percent=st.none() | st.integers(0, 100).map(float),
    cpu_count=st.sampled_from([None, 64]),
    load_1m=st.sampled_from([None, 3.25]),
    memory_used=st.none() | st.integers(1, 196).map(lambda gib: gib * GIB),
    memory_total=st.sampled_from([None, 196 * GIB]),
    disk_free=st.none() | st.integers(1, 900).map(lambda gb: gb * 10**9),
    disk_total=st.just(10**12),
)
_LABELS = st.builds(
    Labels,
    st.sampled_from(["", "renamed"]),
    st.sampled_from([(), ("paper",), ("a", "b")]),
    st.sampled_from(["", "a note"]),
    st.booleans(),
)


class World:
    """A drawn machine in a state folder of its own; its live runs' locks are held until the end."""

    def __init__(self, root: Path, holder: LockHolder) -> None:
        self.state = StateDirectory(root).create()
        self.now = time.time()
        self._holder = holder

    def write(self, host: DrawnHost) -> None:
        """Put everything on disk."""
        # Nobody starts a sampler beside this: the reading stays what was drawn.
        self._holder.hold(self.state.sampler_lock)
        self.gpus = _snapshots(host.gpus)
        reading = GpuReading(self.now, host_name(), "drawn", self.gpus, host.load)
        self.state.gpu_reading.write_bytes(msgspec.json.encode(reading))
        for number, drawn in enumerate(host.runs):
            run_id = f"20261120-1015{number:02}-drawn-{number:04x}"
            self._write_run(self.state.run(run_id), drawn, self._given(host, number))
        for run in list_runs(self.state):
            if not run.is_live and run.started is not None:
                keep_final(run)

    def runs(self) -> list[Run]:
        """Every run as it is read now, oldest first."""
        return list_runs(self.state)

    def drawn(self, run_id: str, host: DrawnHost) -> DrawnRun:
        """A run as it was drawn."""
        return host.runs[int(run_id.rpartition("-")[2], 16)]

    def _given(self, host: DrawnHost, number: int) -> tuple[AssignedGpu, ...]:
        """Its GPUs; of those that a live run before it holds alone, none."""
        mine = host.runs[number]
        live = [drawn for drawn in host.runs[:number] if drawn.state in LIVE]
        taken = {at for drawn in live if mine.state in LIVE for at in drawn.gpus}
        found = []
        for at in mine.gpus:
            gpu = self.gpus[at]
            if at in taken:
                continue
            share = 8 * GIB if mine.shares else None
            place = len(found)
            found.append(
                AssignedGpu(
                    gpu.index, gpu.uuid, gpu.name, place, gpu.simulated, share, gpu.vendor,
                    gpu.mig_parent, gpu.mig_parent or gpu.uuid,
                )
            )  # fmt: skip
        return tuple(found)

    def _write_run(
        self, directory: RunDirectory, drawn: DrawnRun, gpus: tuple[AssignedGpu, ...]
    ) -> None:
        directory.path.mkdir(mode=0o700)
        began = self.now - drawn.seconds
        plan = make_plan(
            directory.id,
            directory=str(directory.path),
            origin=Origin("anna", host_name(), boot_id(), began - 2),
            gpus=gpus,
            phase="queued" if drawn.state is State.QUEUED else "final",
            checkpoints=(f"{directory.path}/checkpoints/patterned-*.bin",),
            price=None if drawn.price is None else Price(drawn.price, "gpu", "preset"),
            forecast=_forecast(drawn),
            total_steps=drawn.total_steps,
        )
        directory.plan.write_bytes(msgspec.json.encode(plan))
        directory.state.write_bytes(msgspec.json.encode(self._record(drawn)))
        directory.output.touch()
        if drawn.labels != Labels():
            directory.labels.write_bytes(msgspec.json.encode(drawn.labels))
        self._write_report(directory, drawn, began)
        self._write_checkpoints(directory, drawn)
        self._write_judgements(directory, drawn, gpus)
        if drawn.state in LIVE:
            directory.home.live_marker(directory.id).touch()
            locks = [directory.run_lock] if drawn.state in _PROGRAM_LIVES else []
            locks += [] if drawn.state is State.ORPHANED else [directory.supervisor_lock]
            for lock in locks:
                self._holder.hold(lock)

    def _record(self, drawn: DrawnRun) -> RunRecord:
        now = moment_now()
        started = _began(drawn.state, drawn.ending)
        began = Moment(self.now - drawn.seconds, now.boot, _before(now, drawn.seconds))
        ended = None if drawn.state in LIVE else Moment(self.now - 1, now.boot, _before(now, 1))
        stopping = drawn.state is State.STOPPING
        return RunRecord(
            State.RUNNING if drawn.state is State.ORPHANED else drawn.state,
            attempt=drawn.attempt,
            host=host_name(),
            boot_id=boot_id(),
            supervisor_pid=self._holder.pid if drawn.state in LIVE else None,
            started=began.wall if started else None,
            began=began if started else None,
            ended=None if ended is None else ended.wall,
            finished=ended,
            exit_code=drawn.exit_code,
            ending=drawn.ending,
            stop=StopProgress("SIGINT", 1, 3, self.now + 30, "anna", self.now)
            if stopping
            else None,
        )

    def _write_report(self, directory: RunDirectory, drawn: DrawnRun, began: float) -> None:
        lines = []
        for number, values in enumerate(drawn.steps, 1):
            moment = began + drawn.seconds * number / (len(drawn.steps) + 1)
            event = {"time": moment, "type": "metrics", "step": number, "values": values}
            text = " ".join(f"{name} {'nan' if x is None else x}" for name, x in values.items())
            lines.append(
                json.dumps(event)
                if drawn.speaks == "events"
                else f"step {number}/{drawn.total_steps or 1000} {text}"
            )
        if drawn.speaks == "nothing" or not lines:
            return
        file = directory.events if drawn.speaks == "events" else directory.output
        file.write_text("\n".join(lines) + "\n")

    def _write_checkpoints(self, directory: RunDirectory, drawn: DrawnRun) -> None:
        folder = directory.path / "checkpoints"
        for number, file in enumerate(drawn.checkpoints):
            folder.mkdir(exist_ok=True)
            path = folder / f"{'patterned' if file.patterned else 'printed'}-{number}.bin"
            path.write_bytes(b"weights" * (number + 1))
            os.utime(path, (self.now - file.age_s,) * 2)
            if not file.patterned:
                with directory.output.open("a") as output:
                    output.write(f"saved checkpoint to {path}\n")

    def _write_judgements(
        self, directory: RunDirectory, drawn: DrawnRun, gpus: tuple[AssignedGpu, ...]
    ) -> None:
        if drawn.health is not None:
            condition, age_s = drawn.health
            words = "progressing" if not condition.is_trouble else f"evidence of {condition.name}"
            health = Health(condition, words, self.now - 700, self.now - age_s, drawn.attempt)
            directory.health.write_bytes(msgspec.json.encode(health))
        if drawn.state is State.QUEUED:
            waits = QueueStatus("no GPU is free", drawn.place, self.now, drawn.never)
            directory.waits.write_bytes(msgspec.json.encode(waits))
        if gpus:
            use = [
                GpuUse(gpu.index, gpu.uuid, gpu.name, gpu.logical, gpu.simulated,
                       peak_memory=7 * GIB, memory_total=80 * GIB, mean_utilization=71.0,
                       seconds=drawn.seconds)
                for gpu in gpus
            ]  # fmt: skip
            usage = RunUsage(directory.id, self.now, tuple(use))
            usage_file(directory.path).write_bytes(msgspec.json.encode(usage))


_PROGRAM_LIVES = (State.RUNNING, State.STOPPING, State.ORPHANED)


class LockHolder:
    """A process of its own that holds locks, as a supervisor and a program do."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", HOLDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def hold(self, lock: Path) -> None:
        """Take a lock; returns once it is held."""
        self._ask(str(lock))
        assert is_held(lock)

    def release(self) -> None:
        """Let go of all."""
        self._ask("")

    def close(self) -> None:
        """End the process."""
        self._process.communicate("")

    def _ask(self, line: str) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline(), "the process that holds locks has ended"


@contextmanager
def world_of(host: DrawnHost, root: Path, holder: LockHolder) -> Iterator[World]:
    """A drawn machine on disk, for the block."""
    world = World(root, holder)
    try:
        world.write(host)
        yield world
    finally:
        holder.release()


def _snapshots(drawn: tuple[DrawnGpu, ...]) -> tuple[GpuSnapshot, ...]:
    rows: list[GpuSnapshot] = []
    card = -1
    for at, gpu in enumerate(drawn):
        card += gpu.parent is None
        parent = None if gpu.parent is None else rows[gpu.parent].uuid
        known: dict[str, Any] = {
            "utilization": gpu.utilization,
            "memory_used": gpu.memory_used,
            "memory_total": 80 * GIB,
            "temperature_c": 40.0,
            "power_w": 300.0,
        }
        known = {"error": gpu.problem} if gpu.problem else known
        uuid = f"GPU-{at}" if parent is None else f"MIG-{at}"
        rows.append(GpuSnapshot(card, uuid, "H100", gpu.vendor, mig_parent=parent, **known))
    return tuple(rows)


def _forecast(drawn: DrawnRun) -> Estimate | None:
    if drawn.estimate_s is None:
        return None
    return Estimate(drawn.estimate_s, "12.50", "2 runs of this preset", runs=2)


def _before(now: Moment, seconds: float) -> int | None:
    return None if now.boot_ns is None else now.boot_ns - round(seconds * 1e9)
