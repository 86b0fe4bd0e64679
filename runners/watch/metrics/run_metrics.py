"""Every metric of one run, from all that it wrote and all that was observed of it."""

from pathlib import Path

from runners.host.printed_paths import PrintedScan
from runners.model.events import Event
from runners.model.run import Run
from runners.model.spec import MetricRule
from runners.state.boundary import ReadBoundary
from runners.watch.metrics.epoch_means import news_of_summary
from runners.watch.metrics.event_reader import EventReader
from runners.watch.metrics.gpu_series import GpuSource, SpentSoFar
from runners.watch.metrics.judging import higher
from runners.watch.metrics.metric_files import RunFiles
from runners.watch.metrics.one_series import SeriesMerger
from runners.watch.metrics.output_source import OutputEvent, OutputItem, OutputSource
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.sample import Sample
from runners.watch.metrics.series import Series
from runners.watch.metrics.series_set import SeriesSet

_BLOCK = 4 << 20
_VALUES = ("metrics", "epoch", "summary")


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
        if event.type in _VALUES:
            values = {
                name: float("nan") if value is None else float(value)
                for name, value in event.values.items()
            }
            if event.type == "summary":
                values = news_of_summary(values, self._events.last)
            sample = Sample(
                values, event.step, epoch=event.epoch, time=event.time, phase=event.stage
            )
            of_epoch = None if event.type == "summary" else event.type == "epoch"
            self._events.note(sample, of_epoch=of_epoch)
