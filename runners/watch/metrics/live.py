"""What a run says of itself, for a line in a list: its events, or its output where it writes
none.
"""

from pathlib import Path

from runners.model.run import Run
from runners.model.spec import MetricRule
from runners.watch.metrics.alerts import AlertStream
from runners.watch.metrics.events import EventStream
from runners.watch.metrics.output import OutputEvent, OutputSource
from runners.watch.metrics.progress import ProgressTracker


class LiveReport:
    """Kept for as long as a run is looked at. A look reads what is new of the events, and the end
    of new output.
    """

    def __init__(self, run: Run) -> None:
        self.events = EventStream(Path(run.directory) / "events.jsonl")
        self.alerts = AlertStream(Path(run.directory) / "supervisor.jsonl")
        self._printed = ProgressTracker()
        self._output: OutputSource | None = None

    @property
    def course(self) -> ProgressTracker:
        """Where the run stands, by what tells most."""
        told = self.events.metrics or self.events.step is not None
        return self.events if told or self._output is None else self._printed

    @property
    def skipped(self) -> int:
        """Bytes of output that came too fast to be looked at."""
        return self._output.skipped if self._output is not None else 0

    @property
    def readers(self) -> tuple[str, ...]:
        """By which readers the output is read; empty when it is not, or says nothing."""
        read = self._output is not None and self.course is self._printed
        return self._output.reader.names if read and self._output is not None else ()

    def poll(self, run: Run, thorough: bool = False, brief: bool = False) -> None:
        """Take in what is new. A run's output is not read by a `brief` look, that of an ended one
        by a `thorough`.
        """
        self.events.poll()
        self.alerts.poll()
        rule = run.plan.metrics if run.plan else MetricRule()
        if self.events.metrics or self.events.step is not None or rule.readers == ("none",):
            self._output = None
            return
        if brief:
            return
        if self._output is None:
            if run.started is None or not (run.is_live or thorough):
                return
            self._output = OutputSource(Path(run.directory), rule, live=True)
        for sample in self._output.poll():
            if isinstance(sample, OutputEvent):
                self._printed.begin_attempt()
                continue
            self._printed.note(sample)
            self._printed.note_pace(sample.time, self._printed.epoch)
