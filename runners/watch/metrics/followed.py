"""What is kept beside a live run of all that it reported, by whoever follows it: its watcher.

Who looks once, or opens a panel, goes on from there instead of reading a log of gigabytes anew,
and knows the best values of a run whose beginning nobody reads again.
"""

from pathlib import Path

import msgspec

from runners.host.files import read_plain
from runners.host.tail import Mark
from runners.state.decoding import decode
from runners.watch.metrics.sample import Sample

FILE = "followed.mp"
"""In the run's folder; its watcher is the only writer."""
_LIMIT = 4 << 20

Plain = bool | int | float | str | list[str] | dict[str, float] | None


class Extremes(msgspec.Struct, array_like=True):
    """How a metric went so far: its least and greatest value that counts, where each was first."""

    count: int = 0
    """Values in all, those that are not finite too."""
    last_at: float | None = None
    least: float | None = None
    least_at: float | None = None
    most: float | None = None
    most_at: float | None = None
    finite: int = 0
    decimals: int | None = None
    """The most digits behind the point among its first values; None where none was looked at."""


class TrackerState(msgspec.Struct):
    """A ProgressTracker's fields, by their names there."""

    metrics: dict[str, float | int | None]
    trend: list[float]
    whole_trend: list[float]
    stride: int
    extremes: dict[str, Extremes]
    is_partial: bool
    noted: int
    newest: list[float]
    headline: str | None
    epoch: int | None
    epochs: int | None
    step: int | None
    steps: int | None
    phase: str | None
    batch: float | None
    last_time: float | None
    unit: str
    stated_pace: float | None
    stated_eta: float | None
    stated_at: float | None
    is_partly: bool
    paces: list[tuple[float, float, int]]
    epoch_paces: list[tuple[float, float, int]]
    epochs_over: tuple[int | None, int | None, int, int | None, float | None]
    epochs_begun: list[int]
    stepped: list[str] = []
    by_epoch: list[str] = []


class ReaderState(msgspec.Struct):
    """What one reader of output keeps from line to line: plain values and samples, by name."""

    name: str
    values: dict[str, Plain]
    samples: dict[str, Sample]


class ReadingState(msgspec.Struct):
    """An OutputReader's readers in their order, those that found something, and their place."""

    readers: list[ReaderState]
    found: list[str]
    epoch: float | None
    epochs: float | None
    begun: bool
    bar_at: float | None = None
    line_at: float | None = None
    agree: bool | None = None


class OutputState(msgspec.Struct):
    """How far output was read, which older attempts were, and what has to be known to go on."""

    mark: Mark
    ended: list[int]
    skipped: int
    caught_up: bool
    reading: ReadingState


class ClockState(msgspec.Struct):
    """What an EpochClock knows: when epochs ended, when each was heard of last, their number."""

    ends: dict[int, float]
    last: dict[int, float]
    epochs: int | None
    began: float | None
    stage: str = ""
    stage_from: float = 0.0


class EventsState(msgspec.Struct):
    """How far the events were read, and what they said."""

    mark: Mark
    tracker: TrackerState
    clock: ClockState
    summary: dict[str, float | int | None]
    images: list[str]


class Followed(msgspec.Struct):
    """All that is known of a run; `output` is None of one whose output needs no reading."""

    events: EventsState
    printed: TrackerState
    output: OutputState | None = None
    held: dict[str, float] = {}
    """The newest value of each metric that the run's files contain."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing that the run wrote was left out."""
        skipped = self.output.skipped if self.output is not None else 0
        return not skipped and not self.events.tracker.is_partial


_decoder = msgspec.msgpack.Decoder(Followed)


def read_followed(run: str) -> Followed | None:
    """What is kept of the run in this folder; None where nobody follows it, or it is damaged."""
    try:
        content = read_plain(Path(run) / FILE, _LIMIT)
    except OSError:
        return None
    # Decoded anew each time: who goes on from it changes it.
    return decode(content, _decoder)
