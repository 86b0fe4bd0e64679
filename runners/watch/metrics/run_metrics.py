"""Every metric of one run, from all that it wrote and all that was observed of it.

What its GPUs did, and what it cost, are series over time like the others.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from runners.gpus.usage import interval_file
from runners.host.printed_paths import PrintedScan
from runners.host.tail import Follower
from runners.model.events import Event
from runners.model.gpus import GpuInterval, UsageInterval
from runners.model.run import Run
from runners.model.spec import MetricRule
from runners.state.boundary import ReadBoundary
from runners.state.decoding import decode_lines
from runners.state.layout import RunDirectory
from runners.watch.metrics.event_reader import WITH_VALUES, EventReader, sample_of
from runners.watch.metrics.judging import higher
from runners.watch.metrics.metric_files import RunFiles
from runners.watch.metrics.one_series import SeriesMerger
from runners.watch.metrics.output_source import OutputEvent, OutputItem, OutputSource
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.series import UNKNOWN, Series
from runners.watch.metrics.series_set import SeriesSet

_BLOCK = 4 << 20
_GIB = 1 << 30
SpentSoFar = Callable[[Run], Sequence[tuple[float, float]]]
"""A run's cost by moments: unix seconds, US dollars."""


class RunMetrics:
    """The whole history of a run.

    `poll` reads on by a bounded piece; `series` are complete once it returns False. The run's own
    events come first; its output is read when it writes none, or when its preset names readers, all
    of it or its last `most_output` bytes. `spent` adds its cost as a series.
    """

    def __init__(
        self,
        run: Run,
        most_output: int | None = None,
        spent: SpentSoFar | None = None,
        tracker: ProgressTracker | None = None,
    ) -> None:
        self.run = run
        self._most_output = most_output
        self.rule = run.plan.spec.metrics if run.plan else MetricRule()
        self.settings: dict[str, object] = {}
        self._events = SeriesSet("events")
        self._reader = EventReader(Path(run.directory) / "events.jsonl")
        self._gpus = GpuSource(run, spent)
        self._printed = SeriesSet("output")
        self._output: OutputSource | None = None
        self._files = RunFiles(run)
        self._merger = SeriesMerger()
        self._scan = PrintedScan(run.directory, run.plan.working_directory if run.plan else "")
        self._tracker = tracker
        self._boundary = ReadBoundary(run.directory)

    def poll(self, run: Run | None = None, limit: int = _BLOCK) -> bool:
        """Read what is new, at most about `limit` bytes of each file; True while there is more."""
        self.run = run or self.run
        read = self._boundary.read
        unread = read("events.jsonl", lambda: self._poll_events(limit), False)
        more = read("gpus.jsonl", lambda: self._gpus.poll(self.run), False) or unread
        # After the events: only when all of them are read is it known whether there are any.
        if not unread and (not self._events.series or self.rule.readers or self.rule.patterns):
            more = read("output.log", lambda: self._poll_output(limit), False) or more
        read("metric files", lambda: self._files.poll(self.run, self.printed_paths), None)
        if not more and not self.run.is_live:
            read("events.jsonl", self._finish_events, None)
        return more

    def _poll_events(self, limit: int) -> bool:
        events = self._reader.poll(limit)
        # A rewritten file is a new attempt, which replaces values from its first step on.
        if self._reader.restarted:
            self._events.begin_attempt()
        for event in events:
            self._note_event(event)
        return self._reader.more

    def _finish_events(self) -> None:
        for event in self._reader.finish():
            self._note_event(event)

    def series(self) -> dict[str, Series]:
        """All series by name: the run's own first, then those of its GPUs and cost."""
        found = self._merger.merge((self._events, self._printed, *self._files.collections))
        devices = self._gpus.series.items()
        return {**found, **{name: series for name, series in devices if series.values}}

    @property
    def printed_paths(self) -> tuple[str, ...]:
        """Paths that the program said it writes, newest last."""
        return self._scan.poll(self.run.is_live).all

    @property
    def readers(self) -> tuple[tuple[str, ...], bool]:
        """How the output was read, and whether that was guessed; empty when it was not."""
        if self._output is None or not self._printed.series:
            return (), False
        return self._output.reader.names, not self.rule.readers and not self.rule.patterns

    @property
    def notes(self) -> list[str]:
        """What has to be known to understand the values, and what was left out."""
        names, guessed = self.readers
        notes = []
        if names:
            text = ", ".join(names)
            notes.append(
                f"read from output.log as {text}"
                + (" (guessed; a preset can name it)" if guessed else "")
            )
            notes += self._output.reader.notes if self._output else ()
            if self._output is not None and self._output.skipped:
                notes.append(
                    f"{self._output.skipped / 1e6:,.0f} MB of output left out: only its "
                    "beginning and end are read"
                )
        notes += [*self._merger.apart, *self._boundary.problems, *self._files.problems]
        if any(source.dropped for source in (self._events, self._printed)):
            notes.append("more than 300 metrics: the rest is left out")
        if any(source.simulated for source in self._gpus.series.values()):
            notes.append("its GPUs are simulated: their numbers are made up")
        return notes

    def higher(self, name: str) -> bool | None:
        """Whether more of a metric is better, by its user, preset or name; None when unknown."""
        return higher(self.run, name)

    def _poll_output(self, limit: int) -> bool:
        if self._output is None:
            folder = Path(self.run.directory)
            self._output = OutputSource(folder, self.rule, False, self._most_output)
        output = self._output
        for sample in output.poll(limit):
            self._note_printed(sample)
        if not output.more and not self.run.is_live:
            for sample in output.finish():
                self._note_printed(sample)
        return output.more

    def _note_printed(self, sample: OutputItem) -> None:
        if sample is OutputEvent.ATTEMPT:
            self._printed.begin_attempt()
        elif not isinstance(sample, OutputEvent):
            self._printed.note(sample)
            if self._tracker is not None:
                self._tracker.note(sample)

    def _note_event(self, event: Event) -> None:
        if event.type == "start":
            self._events.begin_attempt()
            self.settings = dict(event.settings) or self.settings
        if event.type in WITH_VALUES:
            sample, of_epoch = sample_of(event, self._events.last)
            self._events.note(sample, of_epoch=of_epoch)


class GpuSource:
    """Series over seconds since the run's start: `device0/util` of a device, `devices/…` of all.

    Of a run on several nodes those of others than the first begin with `node1/`.
    """

    def __init__(self, run: Run, spent: SpentSoFar | None = None) -> None:
        self._spent = spent
        self.series: dict[str, Series] = {}
        gpus = run.plan.gpus if run.plan else ()
        directory = RunDirectory.at(run.directory)
        self._followers = {
            f"node{rank}/" if rank else "": Follower(interval_file(directory.of_node(rank)))
            for rank in sorted({0, *(gpu.node for gpu in gpus)})
        }
        self._logical = {gpu.uuid: gpu.logical for gpu in gpus}

    def poll(self, run: Run, limit: int = 8 << 20) -> bool:
        """Read what the sampler has written since; True while there is more."""
        start = run.started or run.created
        polled = {node: follower.poll(limit) for node, follower in self._followers.items()}
        if any(news.restarted for news in polled.values()):
            self.series.clear()
        for node, news in polled.items():
            for interval in decode_lines(news.lines, UsageInterval):
                self._note_all(node, interval, start)
        self._note_cost(run, start)
        return any(news.more for news in polled.values())

    def _note_all(self, node: str, interval: UsageInterval, start: float) -> None:
        """Each GPU by its number inside the run, to compare runs; of several, also all together."""
        if len(interval.gpus) > 1:
            busy = [gpu.utilization for gpu in interval.gpus if gpu.utilization is not None]
            power = [gpu.power_w for gpu in interval.gpus if gpu.power_w is not None]
            memory = [gpu.memory for gpu in interval.gpus if gpu.memory is not None]
            heat = [gpu.temperature_c for gpu in interval.gpus if gpu.temperature_c is not None]
            together = GpuInterval(
                -1,
                "",
                sum(busy) / len(busy) if busy else None,
                max(memory, default=None),
                # A sum with one GPU missing would look like a drop in power.
                sum(power) if len(power) == len(interval.gpus) else None,
                max(heat, default=None),
            )
            self._note(f"{node}devices", together, interval, start)
        for gpu in interval.gpus:
            logical = self._logical.get(gpu.uuid)
            name = f"gpu{gpu.index}" if logical is None else f"device{logical}"
            self._note(node + name, gpu, interval, start)

    def _note(self, device: str, gpu: GpuInterval, interval: UsageInterval, start: float) -> None:
        readings = (
            ("util", "%", gpu.utilization),
            ("vram", "GiB", None if gpu.memory is None else gpu.memory / _GIB),
            ("power", "W", gpu.power_w),
            ("temp", "°C", gpu.temperature_c),
        )
        for name, unit, value in readings:
            if value is not None:
                series = self._named(f"{device}/{name}", unit, interval.simulated)
                # Appended: a clock that was set back takes nothing away of what was measured.
                series.append(interval.time - start, value, UNKNOWN, interval.time)

    def _note_cost(self, run: Run, start: float) -> None:
        points = [] if self._spent is None or run.started is None else self._spent(run)
        if not points:
            return
        series = self._named("cost", "$", False)
        # Rebuilt each time: shares of the past change when another run is found to have been there.
        series.cut(0)
        began = points[0][0]  # by the boot's own time, which a changed clock does not move
        for moment, dollars in points:
            series.add(moment - began, dollars, UNKNOWN, start + moment - began)

    def _named(self, name: str, unit: str, simulated: bool) -> Series:
        if name not in self.series:
            self.series[name] = Series(name, "gpus" if unit != "$" else "cost", unit, simulated)
        return self.series[name]
