"""What a run reports about itself, as it comes: progress, pace, metrics, the loss so far."""

from pathlib import Path

from runners.model.events import Event
from runners.watch.metrics.epoch_timing import EpochClock
from runners.watch.metrics.event_reader import EventReader, sample_of
from runners.watch.metrics.followed import EventsState
from runners.watch.metrics.progress import ProgressTracker


class EventStream(ProgressTracker):
    """The events of one run, followed from its file; `poll` costs little when nothing is new."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._reader = EventReader(path)
        self._forget()

    def _forget(self) -> None:
        self.epoch_clock = EpochClock()
        self.summary: dict[str, float | int | None] = {}
        self.images: list[str] = []
        """The newest alone: a run may make millions."""

    def all_state(self) -> EventsState:
        """All that another stream of these events needs to read on."""
        return EventsState(
            self._reader.mark(),
            self.state(),
            self.epoch_clock.kept,
            self.summary,
            self.images,
        )

    def read_on_from(self, state: EventsState) -> None:
        """Read on as the stream whose state it is."""
        self._reader.go_on_from(state.mark)
        self.go_on_from(state.tracker)
        self.epoch_clock = EpochClock(state.clock)
        self.summary, self.images = dict(state.summary), state.images[-1:]

    def poll(self) -> bool:
        """Read what was appended since the last call; True when anything was."""
        before = self._reader.position
        more = True
        while more:
            events = self._reader.poll(jump=True)
            if self._reader.restarted:
                self.reset()
                self._forget()
            self.is_partial = self.is_partial or self._reader.gap is not None
            for at, event in enumerate(events):
                # Events were left out here: the time between these two says nothing of the pace.
                if at == self._reader.gap:
                    self.forget_pace()
                self._accept(event)
            more = self._reader.more
        return self._reader.position != before

    def finish(self) -> None:
        """Read the last line too, which has no end; for a run that has ended."""
        for event in self._reader.finish():
            self._accept(event)

    def _accept(self, event: Event) -> None:
        self.epoch_clock.note(event)
        if event.type == "start":
            self.epochs, self.steps = event.epochs, event.steps
            self.begin_attempt()
        if event.type == "image" and event.path:
            self.images = [event.path]
        sample, of_epoch = sample_of(event, self.metrics.get)
        self.note(sample, trend=event.type == "metrics", of_epoch=of_epoch)
        if event.type == "summary":
            # So many as there are metrics, and each as a number that any file can hold.
            known = {name: value for name, value in event.values.items() if name in self.metrics}
            for name, value in known.items():
                self.summary[name] = None if value is None else float(value)
