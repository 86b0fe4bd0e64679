"""The one reader of events.jsonl: what a run reports about itself, as events in order."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType

import msgspec

from runners.host.tail import Follower, Mark
from runners.model.events import Event
from runners.state.decoding import decode
from runners.watch.metrics.epoch_means import news_of_summary
from runners.watch.metrics.sample import Sample, is_sensible

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 512 * 1024
"""Of a long file that is read for the first time, its first and its last bytes are read."""
_LONGEST = 8 << 20
_BLOCK = 4 << 20
_MOST = 1 << 1023
"""The greatest whole number that certainly fits in a float."""
WITH_VALUES = ("metrics", "epoch", "summary")
_WHOLE = ("epoch", "epochs", "step", "steps")
_COUNTS = (*_WHOLE, "seconds")


class EventReader:
    """The events of one run, followed; lines that are not events are skipped.

    After `poll`, `restarted` says whether the file began anew, `more` whether there is more to
    read, and `gap` before which event something was left out (None where nothing was).
    """

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path, redraws=False, longest=_LONGEST)
        self.restarted = False
        self.more = False
        self.gap: int | None = None

    @property
    def path(self) -> Path:
        """The file that is read."""
        return self._follower.path

    @property
    def position(self) -> tuple[tuple[int, int] | None, int]:
        """Which file is read, and how far: changes with every byte that comes."""
        return self._follower.identity, self._follower.offset

    def mark(self) -> Mark:
        """How far whole events were read."""
        return self._follower.mark()

    def go_on_from(self, mark: Mark) -> None:
        """Read on where another reader of these events stood."""
        self._follower.go_on_from(mark)

    def poll(self, limit: int = _BLOCK, jump: bool = False) -> list[Event]:
        """The events among about `limit` new bytes; with `jump`, a long file's head and tail."""
        if jump and self._follower.offset == 0:
            news = self._follower.poll(TAIL_BYTES, jump=True, head=HEAD_BYTES)
        else:
            news = self._follower.poll(limit)
        self.restarted, self.more, self.gap = news.restarted, news.more, None
        if not news.skipped:
            return list(_decoded(news.lines))
        first = list(_decoded(news.lines[: news.before_gap]))
        self.gap = len(first)
        return [*first, *_decoded(news.lines[news.before_gap :])]

    def all_new(self, jump: bool = False) -> Iterator[Event]:
        """All events up to the file's end, as `poll` reads them."""
        self.more = True
        while self.more:
            yield from self.poll(jump=jump)

    def finish(self) -> list[Event]:
        """The last line, which has no end; for a run that has ended."""
        return list(_decoded(self._follower.flush()))


class _Loose:
    """Reads what others than our own trainers write.

    That is NaN and infinities, which are no JSON, counts with a point in them, and among the values
    whatever is no number, which is left out.
    """

    def decode(self, line: bytes) -> Event:
        plain = json.loads(line.decode("utf-8-sig"))
        if not isinstance(plain, dict):
            raise ValueError("no event")
        values = plain.get("values")
        if isinstance(values, dict):
            numbers = (float, int, NoneType)
            plain["values"] = {name: n for name, n in values.items() if type(n) in numbers}
        for name in _WHOLE:
            if isinstance(count := plain.get(name), float):
                plain[name] = math.ceil(count) if math.isfinite(count) else None
        return msgspec.convert(plain, Event)


_loose = _Loose()


def _decoded(lines: list[bytes]) -> Iterator[Event]:
    for line in lines:
        event = decode(line, Event)
        if event is None and b'"type"' in line:
            event = decode(line, _loose)
        if event is None:
            continue
        # JSON allows numbers of any size, and converting these to float would raise.
        if not any(type(value) is int and abs(value) > _MOST for value in event.values.values()):
            yield _sensible(event)


def sample_of(event: Event, last: Callable[[str], float | None]) -> tuple[Sample, bool | None]:
    """What an event says, and whether of an epoch: None for a summary, which is of neither.

    Of a summary only what is new: `last` gives a metric's last value so far.
    """
    stated = event.values if event.type in WITH_VALUES else {}
    values = {name: math.nan if value is None else float(value) for name, value in stated.items()}
    is_summary = event.type == "summary"
    if is_summary:
        values = news_of_summary(values, last)
    sample = Sample(values, event.step, epoch=event.epoch, time=event.time, phase=event.stage)
    return sample, None if is_summary else event.type == "epoch"


def _sensible(event: Event) -> Event:
    """The event without what no run can count."""
    odd = [name for name in _COUNTS if not is_sensible(getattr(event, name))]
    return msgspec.structs.replace(event, **dict.fromkeys(odd)) if odd else event
