"""What a run reports, for a line in a list: its events, or its output where it writes none."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runners.host.clock import WallClock
from runners.host.files import modified_at, replace
from runners.host.printed_paths import PrintedScan
from runners.model.run import Run
from runners.model.spec import MetricRule
from runners.state.boundary import ReadBoundary
from runners.watch.metrics.alerts import AlertStream
from runners.watch.metrics.checkpoints import CheckpointLook
from runners.watch.metrics.event_stream import EventStream
from runners.watch.metrics.followed import FILE as FOLLOWED
from runners.watch.metrics.followed import Followed, OutputState, read_followed
from runners.watch.metrics.judging import higher
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.sample import headline

if TYPE_CHECKING:
    from runners.watch.metrics.metric_files import RunFiles
    from runners.watch.metrics.one_series import SeriesMerger
    from runners.watch.metrics.output_source import OutputItem, OutputSource
    from runners.watch.metrics.series import Series

_FILES_EVERY_S = 5.0
_RAREST = 4
"""Times as long between two searches where again and again no metric file was found."""


class LiveReport:
    """What a run reports, while it is shown: reads on in its events, and the end of new output."""

    def __init__(self, run: Run) -> None:
        self.boundary = ReadBoundary(run.directory)
        self._directory = run.directory
        self._rule = run.plan.spec.metrics if run.plan else MetricRule()
        self._begun = self._finished = False
        self._followed_at = 0.0
        self._held: dict[str, float] = {}
        self._held_stamp = self._held_looked = 0.0
        self._saved = b""
        # Whoever begins to look after it was set finds an hour that nothing took, too.
        self._clock = WallClock(run.begin)
        self.events = EventStream(Path(run.directory) / "events.jsonl")
        self.alerts = AlertStream(Path(run.directory) / "supervisor.jsonl")
        self._printed = ProgressTracker()
        self._files: RunFiles | None = None
        self._files_polled_at = 0.0
        self._files_rarer = 1
        self._merger: SeriesMerger | None = None
        self._output: OutputSource | None = None
        self._left_at: OutputState | None = None
        """How far its watcher has read, as long as nobody reads on there."""
        self.printed = PrintedScan(run.directory, run.plan.working_directory if run.plan else "")
        self.checkpoint = CheckpointLook()

    @property
    def course(self) -> ProgressTracker:
        """Where the run is, by the source that says most."""
        has_events = self.events.metrics or self.events.step is not None
        has_output = self._output is not None or self._left_at is not None
        return self.events if has_events or not has_output else self._printed

    @property
    def metrics(self) -> dict[str, float | int | None]:
        """The newest value of every metric: what the run reports, then what its files contain."""
        reported, held = self.course.metrics, self._last_held()
        if not held:
            return dict(reported)
        from runners.watch.metrics.one_series import spellings

        more = {
            name: value
            for name, value in held.items()
            if not any(spelled in reported for spelled in spellings(name))
        }
        return {**reported, **more}

    def _last_held(self) -> dict[str, float]:
        """The newest values in the run's files, as they were read here or by its watcher."""
        if self._files is None:
            return self._held
        return {name: series.last for name, series in self.held().items()}

    def held(self) -> dict[str, Series]:
        """What the run's files contain."""
        if self._files is None:
            return {}
        from runners.watch.metrics.one_series import SeriesMerger

        self._merger = self._merger or SeriesMerger()
        return self._merger.merge(self._files.collections)

    def best(self, run: Run) -> dict[str, tuple[float, float | None]]:
        """Best value and step so far where more or less is better; none where output was missed."""
        course = self.course
        if not self.is_whole(run):
            return {}
        found: dict[str, tuple[float, float | None]] = {}
        for name, known in course.extremes.items():
            upwards = higher(run, name)
            value, at = (known.most, known.most_at) if upwards else (known.least, known.least_at)
            if upwards is not None and value is not None:
                found[name] = value, at
        return found

    def is_whole(self, run: Run) -> bool:
        """Whether nothing was missed, nor done again after a restart, of what the run reports."""
        again = run.record is not None and run.record.attempt > 1
        missed = self.course is self._printed and (again or self.skipped)
        return not (self.course.is_partial or missed)

    @property
    def unread(self) -> int:
        """Bytes of output that are still to be read."""
        return self._output.left if self._output is not None else 0

    def finish(self) -> None:
        """Take in, once, what an ended run left unfinished: a last event, a bar's last redraw."""
        if self._finished or self.unread:
            return
        self._finished = True
        self.boundary.read("events.jsonl", self.events.finish, None)
        if (output := self._output) is not None:
            self.boundary.read("output.log", lambda: self._note(output.finish()), None)

    @property
    def skipped(self) -> int:
        """Bytes of output that came too fast to be read."""
        source = self._output if self._left_at is None else self._left_at
        return source.skipped if source is not None else 0

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

    def poll(
        self,
        run: Run,
        thorough: bool = False,
        brief: bool = False,
        follow: bool = False,
        ended: bool = False,
    ) -> None:
        """Read what is new; no output if `brief`, that of an ended run if `thorough` or `ended`.

        With `follow` nothing is left out that can be read in time; that is for a run's watcher.
        """
        self.boundary.read(FOLLOWED, self._take_up, None, again=True)
        if not follow:
            self.boundary.read(FOLLOWED, self._take_held, None, again=True)
        self.boundary.read("events.jsonl", self.events.poll, False)
        self.boundary.read("supervisor.jsonl", self.alerts.poll, None)
        self._poll_output(run, thorough, brief, follow, ended)
        # Once all is read that was written by the clock as it was, or before a pause.
        if self.unread:
            return
        lost = [(None, self._clock.was_set()), *self.alerts.take_pauses()]
        for begin, by in lost:
            for course in (self.events, self._printed) if by > 0 else ():
                course.clock_was_set(by, time.time(), begin)

    def _poll_output(
        self, run: Run, thorough: bool, brief: bool, follow: bool, ended: bool
    ) -> None:
        rule = self._rule
        # A run that reports by events needs no reading of its output, which costs far more.
        if self.events.metrics or self.events.step is not None or rule.readers == ("none",):
            self._output = self._left_at = None
            if follow:
                self._read_files(run, thorough, follow)
            return
        if brief:
            return
        self.boundary.read(FOLLOWED, self._go_on, None, again=True)
        if self._output is None:
            if run.started is None or not (run.is_live or thorough or ended):
                return
            self._output = self._new_output()
        output = self._output
        # Where its watcher stood is near the end: what is left can be read.
        whole = follow or (ended and bool(self._followed_at))
        read = partial(output.follow, leave=follow) if whole else output.poll
        self.boundary.read("output.log", lambda: self._note(read()), None)
        if output.skipped and not follow:
            # What was left out just now may be known already.
            self.boundary.read(FOLLOWED, self._take_up, None, again=True)
            self.boundary.read(FOLLOWED, self._go_on, None, again=True)
        self._read_files(run, thorough, follow)

    def _read_files(self, run: Run, thorough: bool, follow: bool) -> None:
        self.boundary.read("metric files", lambda: self._poll_files(run, thorough, follow), None)

    def save(self) -> None:
        """Keep all that is known beside the run, for those who look once; only its watcher does.

        Raises OSError where the folder takes no file.
        """
        output = self._output.state() if self._output is not None else self._left_at
        followed = Followed(
            self.events.all_state(), self._printed.state(), output, self._last_held()
        )
        content = msgspec.msgpack.encode(followed)
        if content != self._saved:
            replace(Path(self._directory) / FOLLOWED, content, sync=False)
            self._saved = content

    def _take_up(self) -> None:
        """Go on from what the run's watcher knows: at first, and where something was missed."""
        missed = self.events.is_partial or self.skipped
        begun, self._begun = self._begun, True
        if begun and not missed:
            return
        changed = modified_at(Path(self._directory) / FOLLOWED)
        if changed == self._followed_at:
            return
        self._followed_at = changed
        followed = read_followed(self._directory) if changed else None
        if followed is None:
            return
        self._held, self._held_stamp, self._held_looked = followed.held, changed, time.monotonic()
        if begun and not followed.is_whole:
            return
        self.events.read_on_from(followed.events)
        self._printed.go_on_from(followed.printed)
        if followed.output is not None:
            self._left_at = followed.output

    def _go_on(self) -> None:
        """Read on in the output where the watcher stood: by all readers, so not at a first look."""
        state, self._left_at = self._left_at, None
        if state is not None:
            self._output = self._new_output()
            self._output.read_on_from(state)

    def _take_held(self) -> None:
        """Know, every few seconds, what the run's watcher has read in its files."""
        now = time.monotonic()
        if self._held_looked and now - self._held_looked < _FILES_EVERY_S:
            return
        self._held_looked = now
        changed = modified_at(Path(self._directory) / FOLLOWED)
        if changed != self._held_stamp:
            self._held_stamp = changed
            followed = read_followed(self._directory) if changed else None
            self._held = followed.held if followed is not None else {}

    def _new_output(self) -> OutputSource:
        # With all that reads lines: not for a list of runs that have ended.
        from runners.watch.metrics.output_source import OutputSource

        return OutputSource(Path(self._directory), self._rule, live=True)

    def _note(self, items: Iterable[OutputItem]) -> None:
        from runners.watch.metrics.output_source import OutputEvent

        for item in items:
            if item is OutputEvent.ATTEMPT:
                self._printed.begin_attempt()
            elif item is OutputEvent.GAP:
                self._printed.forget_place()
            else:
                self._printed.note(item)

    def _poll_files(self, run: Run, thorough: bool, follow: bool) -> None:
        """Read the files of libraries: now if `thorough`, else seldom.

        Where the program reports something itself, only its watcher reads them besides.
        """
        now = time.monotonic()
        waited = now - self._files_polled_at >= _FILES_EVERY_S * self._files_rarer
        if not thorough and ((self._printed.metrics and not follow) or not waited):
            return
        self._files_polled_at = now
        if self._files is None:
            # All readers of files: not for every command that looks at runs.
            from runners.watch.metrics.metric_files import RunFiles

            self._files = RunFiles(run)
        self._files.poll(run, self.printed.poll().all)
        if self._printed.metrics or self.course is self.events:
            return
        found = self.held()
        self._files_rarer = 1 if found else min(_RAREST, 2 * self._files_rarer)
        name = headline(found)
        if name is not None:
            # A run that only writes files has its loss, trend and step from there.
            self._printed.headline = name
            self._printed.trend.clear()
            self._printed.trend.extend(filter(math.isfinite, found[name].values[-240:]))
            self._printed.reach(found[name].axis, found[name].steps[-1])
