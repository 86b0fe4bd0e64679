"""Observes one live run repeatedly: new events and output, its GPUs' newest interval, /proc."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from runners.gpus.usage import interval_file, read_usage
from runners.health.expected import shortfalls
from runners.health.histories import (
    LastChange,
    LossHistory,
    PaceHistory,
    awake_seconds,
    lifetime_of,
    plain_baseline,
)
from runners.health.signs import BaselineSign, GpuSign, Outlook, RunSigns
from runners.host.clock import moment_now
from runners.host.files import read_json
from runners.host.suspension import suspended_ns
from runners.host.tail import Follower
from runners.model.gpus import UsageInterval
from runners.model.health import RankSign
from runners.model.python_command import processes_started
from runners.model.run import Progress, Run
from runners.model.units import median
from runners.state.deadline import deadline_of
from runners.state.decoding import decode_lines
from runners.state.layout import TERMINAL_STATUS, RunDirectory
from runners.state.rank_processes import (
    ProcessState,
    RankFinder,
    RankProcess,
    cpu_seconds,
    state_of,
)
from runners.watch.logs.rank_logs import rank_logs
from runners.watch.metrics.checkpoints import checkpoint_files
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.sample import higher_is_better

_RECENT_S = 60.0
_GPU_INTERVALS = 720
_CPU_SAMPLES = 360
_MOST_BYTES = 256 << 10


class SignsOfLife(NamedTuple):
    """When a run last wrote output, an event, a checkpoint; None for none so far."""

    output: float | None
    event: float | None
    saved: float | None


def _stated_stall(run: Run) -> float | None:
    """Seconds of silence that the preset calls a stall."""
    rule = run.plan.spec.on_stall if run.plan else None
    return rule.after_s if rule is not None else None


class RunObserver:
    """One live run, looked at from its start or from now on."""

    def __init__(
        self,
        run: Run,
        directory: RunDirectory,
        report: LiveReport | None = None,
        follow: bool = False,
    ) -> None:
        """`report` is one of this run that somebody keeps already; `follow`: all of it is read."""
        self._follow = follow
        self.run_id = run.id
        self._path = directory.path
        files = ("output.log", "events.jsonl", "leader")
        self._output, self._event, self._leader = (LastChange(self._path / name) for name in files)
        self._saved = LastChange()
        self.report = report or LiveReport(run)
        self._finder = RankFinder(directory)
        self._intervals = Follower(interval_file(self._path))
        self._gpus: deque[UsageInterval] = deque(maxlen=_GPU_INTERVALS)
        self._cpu: dict[tuple[int, int], float] = {}
        self._used: deque[float] = deque(maxlen=_CPU_SAMPLES)
        self._measured_at: float | None = None
        self._suspended_ns = suspended_ns()
        self._attempt = 0
        self._begin_attempt(run)

    def _begin_attempt(self, run: Run) -> None:
        self._attempt = run.record.attempt if run.record else 1
        self._losses, self._headline, self._noted = LossHistory(), "", 0
        self._most_ranks = 0
        self._paces = PaceHistory()
        self._alive_at: float | None = None
        self._gap: float | None = None
        self._paused_at: float | None = None
        self._baselines: dict[str, BaselineSign] = {}

    def observe(self, run: Run, now: float, marked: Iterable[int] | None = None) -> RunSigns:
        """What is seen of `run` at `now` (unix s); `marked`: the pids with its mark, if known.

        What lasted is measured in awake seconds of the boot, and told by the wall clock of `now`.
        """
        if run.record is not None and run.record.attempt != self._attempt:
            self._begin_attempt(run)
        self.report.poll(run, follow=self._follow)
        course = self.report.course
        boot = awake_seconds()
        lived = self._lived(run)
        started = boot - (lived or 0.0)
        progress, planned = course.progress(now), course.progress(now, *run.totals)
        stepped = bool(course.metrics) or bool(course.step) or (course.epoch or 0) > 1
        begun = self._leader.seen_at(now, boot, lived)
        life = self._life(run, now, boot, lived)
        ranks = self._finder.find(marked)
        used, shares, loading = self._measure(ranks, boot)
        doing = {rank.pid: state_of(rank.pid) for rank in ranks}
        paused = bool(doing) and all(state and state.is_paused for state in doing.values())
        if paused:
            self._note_pause(boot)
        self._note_life(max(filter(None, life), default=started), stepped)
        self._note_losses()
        self._paces.note(course.last_time, course.step, course.epoch)
        usual_used = median(self._used) if len(self._used) >= 6 else None
        if used is not None and stepped and boot - (self._alive_at or boot) < _RECENT_S:
            self._used.append(used)  # of a stall nothing is usual
        to_wall, timing = now - boot, self.report.events.epoch_clock.timing
        return RunSigns(
            now=now,
            started=max(started, begun or 0.0, self._paused_at or 0.0) + to_wall,
            output_at=None if life.output is None else life.output + to_wall,
            event_at=None if life.event is None else life.event + to_wall,
            saved_at=None if life.saved is None else life.saved + to_wall,
            stepped=stepped,
            gap_s=self._gap,
            pace_s=self._paces.recent, usual_pace_s=self._paces.usual,
            counted=progress.counted.removesuffix("s"),
            shortfalls=shortfalls(
                run.plan, progress, timing.of_stage.seconds_per_epoch,
                read_usage(self._path) if run.plan and run.plan.gpus else (), boot - started,
            ),
            outlook=self._outlook(run, now, planned), eta_s=planned.eta_s,
            losses_not_finite=self._losses.not_finite, loss_name=self._headline or "loss",
            diverges=self._losses.diverges(), flat=self._losses.is_flat(),
            spikes=self._losses.spikes(), noisy=self._losses.is_noisy(),
            data_wait_share=course.metrics.get("data_wait_share"),
            baseline=self._baseline(),
            gpus=self._gpu_signs(run, to_wall),
            ranks=self._rank_signs(ranks, doing, shares, now),
            expected_ranks=self._expected_ranks(run, ranks),
            loaders=sum(len(rank.loaders) for rank in ranks),
            loader_percent=loading,
            cpu_percent=used,
            usual_cpu_percent=usual_used,
            stall_after_s=_stated_stall(run),
            waits_for_input=(read_json(self._path / TERMINAL_STATUS) or {}).get("waiting") is True,
            paused=paused,
        )  # fmt: skip

    def _lived(self, run: Run) -> float | None:
        """Seconds since a run began, without those in suspend since it is looked at."""
        lived = lifetime_of(run, moment_now())
        suspended = (suspended_ns() - self._suspended_ns) / 1e9
        return None if lived is None else max(0.0, lived - suspended)

    def _life(self, run: Run, now: float, boot: float, lived: float | None) -> SignsOfLife:
        """When it last said, reported and saved something, in awake seconds of the boot."""
        output, event = (file.seen_at(now, boot, lived) for file in (self._output, self._event))
        spoken = max(filter(None, (output, event)), default=boot - (lived or 0.0))
        stated = _stated_stall(run)
        # Checkpoints are looked for where it says nothing by itself.
        if boot - spoken >= min(_RECENT_S, _RECENT_S if stated is None else stated / 2):
            files = checkpoint_files(run)
            self._saved.path = Path(files[0].path) if files else None
        return SignsOfLife(output, event, self._saved.seen_at(now, boot, lived))

    def _outlook(self, run: Run, now: float, progress: Progress) -> Outlook | None:
        deadline = deadline_of(run, now)
        return deadline and Outlook(deadline, progress.eta_s, progress.fraction)

    def _expected_ranks(self, run: Run, ranks: tuple[RankProcess, ...]) -> int:
        """How many ranks there should be: as many as are started, or were seen at once."""
        seen = sum(rank.rank is not None for rank in ranks)
        self._most_ranks = max(self._most_ranks, seen)
        started = processes_started(run.plan) if run.plan and seen else None
        return max(started or 1, self._most_ranks if seen else 1)

    def _note_pause(self, boot: float) -> None:
        """A pause is no silence of its own, and no step of its pace."""
        self._paused_at = boot
        self._alive_at = None
        self._paces = PaceHistory()
        self.report.course.forget_pace()

    def _note_life(self, alive_at: float, stepped: bool) -> None:
        """Learn how long the run is silent by itself, once it has begun to step."""
        if self._alive_at is not None and alive_at > self._alive_at and stepped:
            gap = alive_at - self._alive_at
            # A silence that ended by itself is normal for this run, an evaluation for example.
            self._gap = gap if self._gap is None else max(self._gap, gap)
        self._alive_at = max(alive_at, self._alive_at or 0.0)

    def _note_losses(self) -> None:
        course = self.report.course
        name = course.headline or ""
        if name != self._headline or course.noted < self._noted:
            self._losses, self._headline, self._noted = LossHistory(), name, 0
        news = min(course.noted - self._noted, len(course.newest))
        self._losses.is_partial |= news < course.noted - self._noted or self.report.skipped > 0
        self._noted = course.noted
        if news and higher_is_better(name) is not True:
            self._losses.add(list(course.newest)[-news:])

    def _baseline(self) -> BaselineSign | None:
        """The metric that has been below its plain baseline for longest."""
        for name, value, plain in plain_baseline(self.report.course.metrics):
            before = self._baselines.get(name)
            if before is not None and before.value == value:
                continue
            higher = higher_is_better(name) is True
            worse = value < plain if higher else value > plain
            before = before or BaselineSign(name, value, plain, 0, 0)
            below = before.below + 1 if worse else 0
            self._baselines[name] = BaselineSign(name, value, plain, below, before.measured + 1)
        return max(self._baselines.values(), key=lambda baseline: baseline.below, default=None)

    def _measure(
        self, ranks: tuple[RankProcess, ...], boot: float
    ) -> tuple[float | None, dict[int, float], float | None]:
        """Percent of a core since the last look: all processes, each, mean of the loaders."""
        before, passed = self._cpu, boot - (self._measured_at or boot)
        self._cpu, self._measured_at = {}, boot
        shares: dict[int, float] = {}
        for key in self._finder.everything.items():
            spent = cpu_seconds(key[0])
            if spent is None:
                continue
            self._cpu[key] = spent
            if key in before and passed > 0.2:
                shares[key[0]] = 100.0 * max(0.0, spent - before[key]) / passed
        loaders = [shares[pid] for rank in ranks for pid in rank.loaders if pid in shares]
        used = sum(shares.values()) if shares else None
        return used, shares, sum(loaders) / len(loaders) if loaders else None

    def _rank_signs(
        self,
        ranks: tuple[RankProcess, ...],
        doing: dict[int, ProcessState | None],
        shares: dict[int, float],
        now: float,
    ) -> tuple[RankSign, ...]:
        logs = rank_logs(self._path) if len(ranks) > 1 else {}
        found = []
        for rank in ranks:
            state = doing[rank.pid]
            log = logs.get(rank.rank) if rank.rank is not None else None
            written = log.written if log is not None else None
            found.append(
                RankSign(
                    rank.label,
                    rank.pid,
                    state.text if state is not None else "has ended",
                    rank.rank,
                    None if rank.pid not in shares else round(shares[rank.pid], 1),
                    None if written is None else round(max(0.0, now - written), 1),
                )
            )
        return tuple(found)

    def _gpu_signs(self, run: Run, to_wall: float) -> tuple[GpuSign, ...]:
        """The run's GPUs over its last minute, and over what came before that."""
        lines = self._intervals.poll(_MOST_BYTES, jump=True).lines
        self._gpus.extend(decode_lines(lines, UsageInterval))
        if not self._gpus or run.plan is None:
            return ()
        edge = self._gpus[-1].time - _RECENT_S
        alive_at = edge if self._alive_at is None else self._alive_at + to_wall
        alive = alive_at + _RECENT_S  # of a stall nothing is usual
        found = []
        for gpu in run.plan.gpus_here:
            readings = [
                (interval.time, reading)
                for interval in self._gpus
                for reading in interval.gpus
                if reading.uuid == gpu.uuid
            ]
            recent = [reading for time, reading in readings if time > edge]
            before = [reading for time, reading in readings if time <= min(edge, alive)]
            found.append(
                GpuSign(
                    gpu.index,
                    _mean([reading.utilization for reading in recent]),
                    _mean([reading.power_w for reading in recent]),
                    _middle([reading.utilization for reading in before]),
                    _middle([reading.power_w for reading in before]),
                )
            )
        return tuple(found)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if len(known) >= 6 else None
