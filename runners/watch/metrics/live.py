"""What a run reports, for a line in a list: its events, or its output where it writes none."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from runners.host.printed_paths import PrintedScan
from runners.model.run import Run
from runners.model.spec import MetricRule
from runners.state.boundary import ReadBoundary
from runners.watch.metrics.alerts import AlertStream
from runners.watch.metrics.event_stream import EventStream
from runners.watch.metrics.output_source import OutputEvent, OutputSource
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.sample import headline, higher_is_better
from runners.watch.metrics.series import Series

if TYPE_CHECKING:
    from runners.watch.metrics.metric_files import RunFiles

_FILES_EVERY_S = 5.0


def _stands_in(name: str, reported: dict[str, float | int | None]) -> bool:
    plain = name.removeprefix("train/")
    return plain in reported or name.replace("/", "_") in reported


class LiveReport:
    """What a run reports, while it is shown: reads on in its events, and the end of new output."""

    def __init__(self, run: Run) -> None:
        self.boundary = ReadBoundary(run.directory)
        self.events = EventStream(Path(run.directory) / "events.jsonl")
        self.alerts = AlertStream(Path(run.directory) / "supervisor.jsonl")
        self._printed = ProgressTracker()
        self._files: RunFiles | None = None
        self._files_polled_at = 0.0
        self._output: OutputSource | None = None
        self.printed = PrintedScan(run.directory, run.plan.working_directory if run.plan else "")

    @property
    def course(self) -> ProgressTracker:
        """Where the run is, by the source that says most."""
        has_events = self.events.metrics or self.events.step is not None
        return self.events if has_events or self._output is None else self._printed

    @property
    def metrics(self) -> dict[str, float | int | None]:
        """The newest value of every metric: what the run reports, then what its files contain."""
        found: dict[str, Series] = {}
        if self._files is not None:
            self._files.add_to(found)
        reported = self.course.metrics
        held = {
            name: series.last if math.isfinite(series.last) else None
            for name, series in found.items()
            if name not in reported and not _stands_in(name, reported)
        }
        return {**reported, **held}

    def best(self, run: Run) -> dict[str, tuple[float, int | None]]:
        """Best value and step so far where more or less is better; none where output was missed."""
        course = self.course
        again = run.record is not None and run.record.attempt > 1
        if course.is_partial or (course is self._printed and (again or self.skipped)):
            return {}
        rule = run.plan.spec.metrics if run.plan else MetricRule()
        found: dict[str, tuple[float, int | None]] = {}
        for name, extremes in course.extremes.items():
            higher = True if name in rule.higher else higher_is_better(name)
            if higher is not None:
                found[name] = (
                    (extremes.most, extremes.most_step)
                    if higher
                    else (extremes.least, extremes.least_step)
                )
        return found

    @property
    def skipped(self) -> int:
        """Bytes of output that came too fast to be read."""
        return self._output.skipped if self._output is not None else 0

    @property
    def readers(self) -> tuple[str, ...]:
        """By which readers the output is read; empty when it is not, or says nothing."""
        read = self._output is not None and self.course is self._printed
        return self._output.reader.names if read and self._output is not None else ()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each file of the run that cannot be read."""
        files = () if self._files is None else self._files.problems
        return (*self.boundary.problems, *files)

    def poll(self, run: Run, thorough: bool = False, brief: bool = False) -> None:
        """Read what is new; no output if `brief`, and that of an ended run only if `thorough`."""
        self.boundary.read("events.jsonl", self.events.poll, False)
        self.boundary.read("supervisor.jsonl", self.alerts.poll, None)
        rule = run.plan.spec.metrics if run.plan else MetricRule()
        # A run that reports by events needs no reading of its output, which costs far more.
        if self.events.metrics or self.events.step is not None or rule.readers == ("none",):
            self._output = None
            return
        if brief:
            return
        if self._output is None:
            if run.started is None or not (run.is_live or thorough):
                return
            self._output = OutputSource(Path(run.directory), rule, live=True)
        output = self._output
        self.boundary.read("output.log", lambda: self._read_output(output), None)
        self.boundary.read("metric files", lambda: self._poll_files(run, thorough), None)

    def _read_output(self, output: OutputSource) -> None:
        for sample in output.poll():
            if isinstance(sample, OutputEvent):
                self._printed.begin_attempt()
                continue
            self._printed.note(sample)
            self._printed.note_pace(sample.time, self._printed.epoch)

    def _poll_files(self, run: Run, thorough: bool) -> None:
        """Read the files of libraries where output says nothing: if `thorough` now, else seldom."""
        now = time.monotonic()
        waited = now - self._files_polled_at >= _FILES_EVERY_S
        if not thorough and (self._printed.metrics or not waited):
            return
        self._files_polled_at = now
        if self._files is None:
            # All readers of files: not for every command that looks at runs.
            from runners.watch.metrics.metric_files import RunFiles

            self._files = RunFiles(run)
        self._files.poll(run, self.printed.poll().all)
        if self._printed.metrics:
            return
        found: dict[str, Series] = {}
        self._files.add_to(found)
        name = headline(found)
        if name is not None:
            # A run that only writes files has its loss, trend and step from there.
            self._printed.headline = name
            self._printed.trend.clear()
            self._printed.trend.extend(found[name].values[-240:])
            self._printed.step = int(found[name].steps[-1])
