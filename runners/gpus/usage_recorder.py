"""The sampler's memory: the host's last ten minutes, and every live run's use of its GPUs.

Runs are looked up as cheaply as can be: their directories' plans are decoded when they change,
their locks probed once a second, and /proc is searched for marks only while a lock is free and the
run still stands as live.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.gpus.compaction import FULL, compact, greatest
from runners.gpus.usage import (
    RECENT_S,
    decode_usage,
    interval_file,
    recent_files,
    usage_file,
)
from runners.host.files import closing, replace
from runners.host.identity import host_name, up_ns
from runners.host.locks import is_held
from runners.host.procfs import all_marks
from runners.host.slurm_job import SlurmJob
from runners.model.gpus import (
    GpuInterval,
    GpuReading,
    GpuSample,
    GpuSnapshot,
    GpuUse,
    HistoryLine,
    RunUsage,
    UsageInterval,
    Xid,
)
from runners.state.codec import OutlinedGpu, OutlinedOrigin, read_outline
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids

EVERY_S = 10.0
"""How often a run's interval and summary are written."""
_LONGEST_STEP_S = 5.0
"""A reading stands for the time since the one before, but not for a gap in which nobody looked."""
_MOST_XIDS = 8
_WH = 1 / 3600
_MOST_W = 5000.0
"""Above it, a step of an energy counter is one that was reset, not a GPU's draw."""


class _Mean(msgspec.Struct):
    """A mean that is weighted by seconds; nothing known yet is None."""

    total: float = 0.0
    seconds: float = 0.0

    def add(self, value: float | None, seconds: float) -> None:
        if value is not None:
            self.total += value * seconds
            self.seconds += seconds

    def value(self) -> float | None:
        return self.total / self.seconds if self.seconds else None


class GpuAccumulator:
    """One GPU of one run: all of it, begun perhaps under another sampler, and this interval."""

    def __init__(self, gpu: OutlinedGpu, before: GpuUse | None) -> None:
        self._use = before or GpuUse(
            *(gpu.index, gpu.uuid, gpu.name, gpu.logical, gpu.simulated), node=gpu.node
        )
        self._utilization = _Mean(
            (self._use.mean_utilization or 0.0) * self._use.utilization_s, self._use.utilization_s
        )
        self._energy = _Mean((self._use.energy_wh or 0.0) / _WH, self._use.energy_s)
        self._counter: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._busy, self._power = _Mean(), _Mean()
        self._memory: int | None = None
        self._heat: float | None = None

    def add(self, gpu: GpuSnapshot, run: str, sharers: int, seconds: float) -> None:
        """Count in a reading that stands for `seconds`."""
        memory, whole = _memory_of(gpu, run, sharers)
        for mean in (self._utilization, self._busy):
            mean.add(gpu.utilization, seconds)
        self._power.add(gpu.power_w, seconds)
        counted = self._counted(gpu.energy_j, seconds)
        self._energy.add(gpu.power_w if counted is None else counted / seconds, seconds)
        self._memory = greatest(self._memory, memory)
        self._heat = greatest(self._heat, gpu.temperature_c)
        use = self._use
        higher = memory is not None and (use.peak_memory is None or memory > use.peak_memory)
        self._use = msgspec.structs.replace(
            use,
            shared=use.shared or sharers > 1,
            peak_memory=memory if higher else use.peak_memory,
            whole_gpu=whole if higher else use.whole_gpu,
            memory_total=gpu.memory_total or use.memory_total,
            peak_temperature_c=greatest(use.peak_temperature_c, gpu.temperature_c),
            seconds=round(use.seconds + seconds, 3),
            counted_s=round(use.counted_s + (0.0 if counted is None else seconds), 3),
        )

    def _counted(self, counter: float | None, seconds: float) -> float | None:
        """Joules since the reading before by the GPU's own counter; None where that tells none."""
        before, self._counter = self._counter, counter
        if before is None or counter is None or seconds <= 0:
            return None
        joules = counter - before
        return joules if 0 <= joules <= _MOST_W * seconds else None

    def note_error(self, xid: Xid) -> bool:
        """Keep an error of the GPU with the run; False when it is known already."""
        if xid in self._use.xids:
            return False
        self._use = msgspec.structs.replace(self._use, xids=(*self._use.xids, xid)[-_MOST_XIDS:])
        return True

    def use(self) -> GpuUse:
        """All of the run so far."""
        mean, energy = self._utilization.value(), self._energy
        return msgspec.structs.replace(
            self._use,
            mean_utilization=None if mean is None else round(mean, 3),
            utilization_s=round(self._utilization.seconds, 3),
            energy_wh=round(energy.total * _WH, 6) if energy.seconds else None,
            energy_s=round(energy.seconds, 3),
        )

    def interval(self) -> GpuInterval:
        """This interval; the next one begins."""
        busy, power = self._busy.value(), self._power.value()
        found = GpuInterval(
            self._use.index,
            self._use.uuid,
            None if busy is None else round(busy, 1),
            self._memory,
            None if power is None else round(power, 1),
            self._heat,
        )
        self._begin()
        return found


class RunUsageTracker:
    """One live run with GPUs, followed from the first reading under its lease to the last."""

    def __init__(self, run: str, folder: Path, gpus: list[OutlinedGpu], began: float) -> None:
        self.run, self.folder = run, folder
        self._began = began
        self._alarmed = False
        usage = decode_usage(folder)
        known = usage.gpus if usage is not None and usage.run == run else ()
        before = {use.uuid: use for use in known}
        self.sums = {gpu.uuid: GpuAccumulator(gpu, before.get(gpu.uuid)) for gpu in gpus}
        # What an earlier attempt did on other GPUs stays told.
        self._others = tuple(use for uuid, use in before.items() if uuid not in self.sums)
        self._simulated = any(gpu.simulated for gpu in gpus)
        self._seconds = 0.0

    def add(self, gpus: dict[str, GpuSnapshot], sharers: dict[str, int], seconds: float) -> None:
        """Count in a reading; a GPU that is missing or in error tells nothing."""
        self._seconds += seconds
        for uuid, total in self.sums.items():
            gpu = gpus.get(uuid)
            if gpu is None:
                continue
            if gpu.error is None:
                total.add(gpu, self.run, sharers[uuid], seconds)
            whole = gpus.get(gpu.mig_parent or uuid, gpu)
            if (
                whole.xid is not None
                and whole.xid.time >= self._began
                and total.note_error(whole.xid)
            ):
                self._alarmed = True

    @property
    def is_due(self) -> bool:
        """True when an interval is full, or something has happened that must not wait for it."""
        return self._alarmed or self._seconds >= EVERY_S - 0.5

    def write(self, now: float) -> None:
        """Write interval and summary; a full disk or a removed run loses them, nothing else."""
        if not self._seconds:
            return
        line = UsageInterval(
            round(now, 3),
            round(self._seconds, 3),
            tuple(total.interval() for total in self.sums.values()),
            self._simulated,
            round(up_ns() / 1e9, 3),
        )
        uses = (*self._others, *(total.use() for total in self.sums.values()))
        self._seconds, self._alarmed = 0.0, False
        with suppress(OSError):
            replace(
                usage_file(self.folder),
                msgspec.json.encode(RunUsage(self.run, round(now, 3), uses)),
                sync=False,  # a slow disk must not hold up the next reading
            )
            path = interval_file(self.folder)
            if _append(path, msgspec.json.encode(line) + b"\n") > FULL:
                compact(path)


class UsageRecorder:
    """What the sampler writes beside gpus.json and into the folders of this host's live runs."""

    def __init__(
        self,
        state: StateDirectory,
        clock: Callable[[], float] = time.monotonic,
        job: SlurmJob | None = None,
    ) -> None:
        """`job`: the Slurm job whose sampler this is."""
        self._state, self._job = state, job
        self._rank = job.rank if job is not None else 0
        self._shown: tuple[GpuSnapshot, ...] = ()
        self._clock = clock
        self._current, self._before = recent_files(state)
        self._tracks: dict[str, RunUsageTracker] = {}
        self._marked: tuple[float, dict[str, list[int]]] = (float("-inf"), {})
        self._last: float | None = None

    def note(self, reading: GpuReading) -> None:
        """Count in a reading that was just taken."""
        now = self._clock()
        seconds = 1.0 if self._last is None else min(now - self._last, _LONGEST_STEP_S)
        self._last = now
        self._note_recent(reading)
        self._shown = reading.gpus
        self._follow_runs(now, reading.time)
        if self._tracks:
            self._count(reading, seconds)

    @property
    def is_following(self) -> bool:
        """Whether some run holds GPUs here."""
        return bool(self._tracks)

    def close(self) -> None:
        """Write down what is not yet written: the sampler leaves."""
        for track in self._tracks.values():
            track.write(time.time())
        self._tracks.clear()

    def _note_recent(self, reading: GpuReading) -> None:
        rows = {
            gpu.uuid: GpuSample(gpu.utilization, gpu.memory_used, gpu.power_w, gpu.temperature_c)
            for gpu in reading.gpus
        }
        line = (
            msgspec.json.encode(HistoryLine(round(reading.time, 3), reading.cpu.cpu_percent, rows))
            + b"\n"
        )
        with suppress(OSError):
            # The full file holds ten minutes and more: with the growing one they are always there.
            if _append(self._current, line) > len(line) * RECENT_S * 1.2:
                self._current.replace(self._before)

    def _count(self, reading: GpuReading, seconds: float) -> None:
        gpus = {gpu.uuid: gpu for gpu in reading.gpus}
        sharers: dict[str, int] = {}
        for track in self._tracks.values():
            for uuid in track.sums:
                sharers[uuid] = sharers.get(uuid, 0) + 1
        for track in self._tracks.values():
            track.add(gpus, sharers, seconds)
            if track.is_due:
                track.write(reading.time)

    def _follow_runs(self, now: float, wall: float) -> None:
        """Follow the runs that hold GPUs now; close those that no longer do."""
        try:
            live = live_run_ids(self._state)
        except OSError:
            return  # as they are followed already
        holding = {run_id for run_id in live if self._gpus_of(run_id) and self._holds(run_id, now)}
        for run_id in [run_id for run_id in self._tracks if run_id not in holding]:
            self._tracks.pop(run_id).write(wall)
        for run_id in holding:
            gpus = self._gpus_of(run_id)
            track = self._tracks.get(run_id)
            if track is not None and list(track.sums) != [gpu.uuid for gpu in gpus]:
                track.write(wall)
                track = None
            if track is None:
                folder = self._state.run(run_id).of_node(gpus[0].node)
                self._tracks[run_id] = RunUsageTracker(run_id, folder, gpus, wall)

    def _gpus_of(self, run_id: str) -> list[OutlinedGpu]:
        """The GPUs in a run's plan; none while it is queued, another host's, or not written yet."""
        plan = read_outline(self._state.run(run_id))
        if plan is None or plan.is_queued or not self._is_here(plan.origin):
            return []
        return self._shown_here([gpu for gpu in plan.gpus if gpu.node == self._rank])

    def _is_here(self, origin: OutlinedOrigin) -> bool:
        if self._job is not None and self._rank:
            return origin.job == self._job.id
        return origin.host in ("", host_name())

    def _shown_here(self, gpus: list[OutlinedGpu]) -> list[OutlinedGpu]:
        """`gpus` as this node calls them: the plan was made on the run's first one."""
        if not self._rank:
            return gpus
        whole = {gpu.mig_parent for gpu in self._shown}
        here = (gpu for gpu in self._shown if gpu.uuid not in whole)
        return [
            OutlinedGpu(
                *(gpu.uuid, given.logical, gpu.index, gpu.name, gpu.simulated), node=given.node
            )
            for given, gpu in zip(gpus, here, strict=False)
        ]

    def _holds(self, run_id: str, now: float) -> bool:
        if is_held(self._state.run(run_id).run_lock):
            return True
        if now - self._marked[0] >= EVERY_S:
            self._marked = (now, all_marks())
        return run_id in self._marked[1]


def _memory_of(gpu: GpuSnapshot, run: str, sharers: int) -> tuple[int | None, bool]:
    """Bytes of `run` on `gpu`, and whether they are all in use there, as its own are not known."""
    own = [process.memory_used for process in gpu.processes if process.run == run]
    if own and None not in own:
        return sum(used or 0 for used in own), False
    others = any(process.run != run and not process.outside for process in gpu.processes)
    return (None if sharers > 1 or others else gpu.memory_used), True


def _append(path: Path, line: bytes) -> int:
    """Append to the file at `path`, 0600; the size of the file then."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with closing(os.open(path, flags, 0o600)) as descriptor:
        os.write(descriptor, line)
        return os.fstat(descriptor).st_size
