"""How long what is left of a run will take, by when its steps and epochs so far were done."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float, int]
"""When (unix seconds) so many steps were done first, and in which epoch."""

_MOST = 256
"""Points kept; of more, every second goes: the whole attempt stays, in coarser steps."""
_PAUSE_S = 1.0
_PAUSE_FACTOR = 2.5
"""An interval so many times as long as its steps take, and longer by a second, has a pause."""
_WARM_FACTOR = 1.5
_REGULAR = 1.6
_FEWEST = 3
_FIRST_PART = 10
"""Two intervals tell from the first tenth on."""
_RECENT = 8
"""Steps of the last eighth weigh as much as all before: paces drift, and a single step is noisy."""
_ALIKE = 1.25
_APART = 4.0
_SILENT, _LONG, _MATTERS = 3.0, 1.5, 0.1
"""Without a step for so many times as long as ever before: it does something that is not known,
and so it does after less where that is much of what is left."""


class StepSpan(NamedTuple):
    """From one point to the next: its last step, how many steps, seconds, and the epoch."""

    done: float
    steps: float
    seconds: float
    epoch: int


class StepPace:
    """The pace of one attempt; a pause is an evaluation, a checkpoint or what else stops steps.

    The first epoch, which compiles and fills caches, is left out as soon as later ones are faster.
    """

    def __init__(self, points: Sequence[Point] = ()) -> None:
        self.points = list(points)

    def forget(self) -> None:
        """What comes next does not continue what was there."""
        self.points.clear()

    def note(self, time: float, done: float, epoch: int) -> None:
        """`done` steps are done at `time`; a smaller count than before is a new count."""
        points = self.points
        if points and done < points[-1][1]:
            points.clear()
        elif points and time < points[-1][0]:
            # The clock was set back: what was done took no less time for that.
            took = (self.per_step or 0.0) * (done - points[-1][1])
            self.points = points = _moved(points, time - took - points[-1][0])
        # What is drawn or printed again at one step is no later step.
        if points and done == points[-1][1]:
            return
        if points and points[-1][0] == time:
            points.pop()
        points.append((time, done, epoch))
        if len(points) == _FEWEST + 1 and _leaps(points):
            del points[0]
        if len(points) > _MOST:
            del points[1:-1:2]

    def clock_was_set(self, by: float, now: float, begin: float | None = None) -> None:
        """Points from before the clock was set forward belong so many seconds later.

        It was set in the longest wait, up to `now`, and never where none is as long. So it is with
        a pause that began at `begin`, in the wait that this is in.
        """
        spans = list(pairwise([*(time for time, _, _ in self.points), now]))
        waits = [
            later - time if begin is None or time <= begin < later else -1.0
            for time, later in spans
        ]
        if waits and (longest := max(waits)) >= by:
            at = waits.index(longest) + 1
            self.points = [*_moved(self.points[:at], by), *self.points[at:]]

    @property
    def per_step(self) -> float | None:
        """Seconds per step without pauses; None before two points."""
        found = self._intervals()
        return _mean(found, _steady_limit(found), math.inf) if found else None

    def tells(self, total: float) -> bool:
        """Whether there are so many intervals that they say how long those until `total` take.

        Fewer than three do where they are alike, and a tenth of all.
        """
        found = self._intervals()
        if len(found) >= _FEWEST:
            return True
        if len(found) < 2:
            return False
        paces = [_pace(span) for span in found]
        is_early = total - self.points[0][1] > _FIRST_PART * sum(span.steps for span in found)
        return max(paces) <= _ALIKE * min(paces) and not is_early

    def remaining_s(self, total: float, now: float) -> float | None:
        """Seconds until step `total` is done, with the pauses that recur; None where not known.

        Nothing tells it during a silence that is far longer than any before, nor of the next step
        after it, nor when it may as well be four times as long as it may be short.
        """
        found = self._intervals()
        if not self.tells(total) or 0 < self._later_epochs(found) < _FEWEST:
            return None
        last, done, _ = self.points[-1]
        left, waited = max(0.0, total - done), max(0.0, now - last)
        limit = _steady_limit(found)
        each = _mean(found, limit, done / _RECENT)
        least_pauses, most_pauses = _pauses_ahead(found, limit, each, total, self.points[0][1])
        low, high = each * left + least_pauses, each * left + most_pauses
        # In between by ratio: as far from the one as from the other, twice at most.
        expected = math.sqrt(low * high)
        if _is_unlike(found, waited, expected):
            return None
        # A step may come as late as steps differ, and what has passed is no part of what is left.
        late = _spread(found) * min(left, found[-1].steps)
        soonest, latest = low - late - waited, high + late - waited
        return expected - waited if soonest > 0.0 and latest <= _APART * soonest else None

    def _later_epochs(self, intervals: Sequence[StepSpan]) -> int:
        return sum(span.epoch != self.points[0][2] for span in intervals)

    def _intervals(self) -> list[StepSpan]:
        points, found = self.points, _spans(self.points)
        later = [span for span in found if span.epoch != points[0][2]]
        if len(later) >= _FEWEST:
            first = [span for span in found if span.epoch == points[0][2]]
            if first and _median(first) > _WARM_FACTOR * _median(later):
                return later
        # Compiling may take several steps of an only epoch.
        while len(found) > _FEWEST and _pace(found[0]) > _WARM_FACTOR * _median(found[1:]):
            found = found[1:]
        return found


class EpochCount:
    """An epoch is over with as many lines of values as the one before had, or when the next begins.

    Of the first, nobody knows how many lines come: it is over when the second begins. Until then
    those before the one that has begun are over, at least.
    """

    def __init__(self) -> None:
        self.over: int | None = None
        self.changed: list[tuple[float, int]] = []
        """When (unix seconds) epochs were over that were not before the last call."""
        self._epoch: int | None = None
        self._lines = 0
        self._usual: int | None = None
        self._at: float | None = None

    @property
    def at_least(self) -> int | None:
        """So many epochs are over, or more; None before the first line."""
        if self.over is None:
            return None if self._epoch is None else self._epoch - 1
        return self.over

    def state(self) -> tuple[int | None, int | None, int, int | None, float | None]:
        """All that another count needs to go on."""
        return self.over, self._epoch, self._lines, self._usual, self._at

    def go_on_from(
        self, state: tuple[int | None, int | None, int, int | None, float | None]
    ) -> None:
        """Go on as the count whose state it is."""
        self.over, self._epoch, self._lines, self._usual, self._at = state

    def note(
        self, epoch: int, has_values: bool, time: float | None, over: int | None = None
    ) -> None:
        """A line in `epoch`, from 1; `over` is how many are over where the line says that."""
        self.changed = []
        if self._epoch is None or epoch < self._epoch:
            self.over, self._lines, self._usual = None, 0, None
        elif epoch > self._epoch:
            self._usual, self._lines = self._lines or self._usual, 0
            self._pass(epoch - 1, self._at)
        self._epoch = epoch
        self._lines += has_values
        self._at = time if has_values else self._at
        if over is not None:
            self._pass(over, time)
        elif has_values and self._usual is not None and self._lines >= self._usual:
            self._pass(epoch, time)

    def _pass(self, over: int, time: float | None) -> None:
        if self.over is not None and over <= self.over:
            return
        self.over = over
        if time is not None:
            self.changed.append((time, over))


def _moved(points: Sequence[Point], by: float) -> list[Point]:
    return [(time + by, done, epoch) for time, done, epoch in points]


def _leaps(points: Sequence[Point]) -> bool:
    """Whether a count began with what an earlier run has done: a resumed bar goes there at once."""
    first, *later = _spans(points)
    is_most = first.steps > sum(span.steps for span in later)
    return is_most and _pace(first) * _WARM_FACTOR < _median(later)


def _spans(points: Sequence[Point]) -> list[StepSpan]:
    return [
        StepSpan(done, done - before, time - began, epoch)
        for (began, before, _), (time, done, epoch) in pairwise(points)
    ]


def _is_unlike(intervals: Sequence[StepSpan], waited: float, expected: float) -> bool:
    """Whether it waits, or has just waited, far longer than ever, and for what is not known."""
    *before, last = [span.seconds for span in intervals]
    if waited > _SILENT * max(last, *before):
        return True
    matters = _MATTERS * expected
    return any(
        seconds > max(_LONG * longest, matters)
        for seconds, longest in ((last, max(before)), (waited, max(last, *before)))
    )


def _pace(span: StepSpan) -> float:
    return span.seconds / span.steps


def _median(intervals: Sequence[StepSpan]) -> float:
    """Seconds per step of the middle step."""
    ordered = sorted(intervals, key=_pace)
    half = sum(span.steps for span in ordered) / 2
    for span in ordered:
        half -= span.steps
        if half <= 0:
            return _pace(span)
    return _pace(ordered[-1])


def _spread(intervals: Sequence[StepSpan]) -> float:
    """Half of what the slowest and the fastest interval differ by, in seconds per step."""
    paces = [_pace(span) for span in intervals]
    return (max(paces) - min(paces)) / 2


def _steady_limit(intervals: Sequence[StepSpan]) -> float:
    """Seconds per step beyond which an interval is more than steps."""
    return _PAUSE_FACTOR * _median(intervals)


def _is_steady(span: StepSpan, limit: float) -> bool:
    return span.seconds <= span.steps * limit + _PAUSE_S


def _mean(intervals: Sequence[StepSpan], limit: float, half: float) -> float:
    """Seconds per step, those `half` steps ago at half the weight."""
    seconds = steps = 0.0
    for span in intervals:
        if _is_steady(span, limit):
            weight = 0.5 ** ((intervals[-1].done - span.done) / half) if half else 1.0
            seconds, steps = seconds + weight * span.seconds, steps + weight * span.steps
    return seconds / steps if steps else _median(intervals)


def _pauses_ahead(
    intervals: Sequence[StepSpan], limit: float, each: float, total: float, first: float
) -> tuple[float, float]:
    """Seconds of pauses to come: as many as recur by the same number of steps, else by share.

    The least and the most: whether one follows the last step is not known.
    """
    pauses = [span for span in intervals if not _is_steady(span, limit)]
    if not pauses:
        return 0.0, 0.0
    extra = [span.seconds - each * span.steps for span in pauses]
    if len(extra) > 1 and extra[0] * (len(extra) - 1) > _WARM_FACTOR * sum(extra[1:]):
        del extra[0]  # the first evaluation compiles and imports what the later ones have
    lasts = sum(extra)
    at = [span.done for span in pauses]
    gaps = [b - a for a, b in pairwise(at)] or [at[0] - min(first, at[0])]
    done = intervals[-1].done
    # One that is long due does not recur any more, or by another rule.
    if min(gaps) <= 0 or max(*gaps, done - at[-1]) > _REGULAR * min(gaps):
        begun = intervals[0].done - intervals[0].steps
        share = lasts * (total - done) / (done - begun)
        return share, share
    gap = sum(gaps) / len(gaps)
    ahead = (total - at[-1]) / gap
    # A little before its turn: the last is often after the last step.
    return lasts / len(extra) * math.floor(ahead), lasts / len(extra) * math.floor(ahead + 0.3)
