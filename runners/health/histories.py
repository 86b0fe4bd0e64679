"""What an observer remembers of a run: its loss, its pace, and when its files changed last."""

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from runners.host.clock import Moment, seconds_between
from runners.host.files import status_of
from runners.model.run import Run
from runners.model.units import median

_MOST = 256
_WINDOWS = 8
_FEWEST = 48
"""Values before anything is said: the first few of a run say nothing."""
_NOISES = 6.0
_RISEN_BY = 0.5
_LEARNT_BY = 0.005
_NEWEST = 128
"""Single values that are kept, to find spikes and noise in."""
_SPIKE = 2.0
"""How many times what is usual a spike is, and twelve times the noise about it."""
_SPIKES = 3
_WILD = 0.75
"""Noise from value to value, as part of the value, from which a curve shows nothing any more."""
_MAD = 1.4826
"""From the median absolute deviation to the standard deviation of a normal distribution."""
BLOCK_S = 180.0
_BLOCKS = 240
_FEWEST_PACES = 4
"""Blocks before the last two whose median counts as its own pace."""


class LossHistory:
    """All values of one loss since the run began, as medians of equally many; lower is better."""

    def __init__(self) -> None:
        self.seen = 0
        self.not_finite = 0
        self.is_partial = False
        """Whether values before these are missing."""
        self._now, self._least = math.nan, math.inf
        self._each = 1
        self._open: list[float] = []
        self._medians: list[float] = []
        self._newest: deque[float] = deque(maxlen=_NEWEST)

    def add(self, values: Iterable[float]) -> None:
        """Add new values; `not_finite` counts those at the end that are not finite."""
        for value in values:
            if not math.isfinite(value):
                self.not_finite += 1
                continue
            self.not_finite = 0
            self.seen += 1
            self._now, self._least = value, min(value, self._least)
            self._open.append(value)
            self._newest.append(value)
            if len(self._open) == self._each:
                self._medians.append(median(self._open))
                self._open = []
                if len(self._medians) == _MOST:
                    # Halved in resolution, not cut: the beginning stays, and memory is bounded.
                    pairs = zip(self._medians[::2], self._medians[1::2], strict=True)
                    self._medians = [(a + b) / 2 for a, b in pairs]
                    self._each *= 2

    @property
    def last(self) -> float | None:
        """The newest median."""
        return self._medians[-1] if self._medians else None

    def diverges(self) -> str:
        """How it rises, having lost half its gain far above its noise; empty when it does not."""
        windows = self._windows()
        if windows is None:
            return ""
        best_at = min(range(len(windows)), key=windows.__getitem__)
        best, first, last = windows[best_at], windows[0], windows[-1]
        rising = best_at < len(windows) - 2 and windows[-3] < windows[-2] < last
        gained = max(first - best, 0.0)
        rise = last - best
        if not rising or rise <= _NOISES * self._noise() or rise <= _RISEN_BY * gained:
            return ""
        return f"rises: {self._now:.4g} now, its best was {self._least:.4g}"

    def spikes(self) -> str:
        """How often it jumped and came back lately, in words; empty below three times."""
        values = list(self._newest)
        if len(values) < _FEWEST or min(values) <= 0:
            return ""
        usual, noise = median(values), _MAD * _deviation(values)
        limit = max(_SPIKE * usual, usual + 2 * _NOISES * noise)
        jumps = [now for before, now in pairwise(values) if now > limit >= before]
        if len(jumps) < _SPIKES:
            return ""
        return (
            f"jumped {len(jumps)} times in {len(values)} values: to {max(jumps):.4g}, "
            f"{usual:.4g} is usual"
        )

    def is_noisy(self) -> str:
        """That it goes up and down by its own size, in words; empty when it does not."""
        values = list(self._newest)
        if len(values) < _FEWEST or min(values) <= 0:
            return ""
        steps = [b - a for a, b in pairwise(values)]
        noise, usual = _MAD * _deviation(steps) / math.sqrt(2), median(values)
        if noise <= _WILD * usual:
            return ""
        return f"goes up and down by {noise:.2g} about {usual:.4g} from value to value"

    def is_flat(self) -> str:
        """That nothing was learnt since the beginning, in words; empty when something ever was."""
        windows = self._windows()
        # Of a loss whose beginning nobody saw, the end alone is flat when it has learnt all.
        if windows is None or self.is_partial:
            return ""
        first, best, last = windows[0], min(windows), windows[-1]
        size = max(abs(first), 1e-12)
        noise = self._noise() / math.sqrt(max(1.0, len(self._medians) / _WINDOWS))
        if first - best > max(3 * noise, _LEARNT_BY * size) or abs(last - first) > 0.02 * size:
            return ""
        text = f"median {first:.4g} of the first eighth, {last:.4g} of the last"
        return f"has not fallen in {self.seen:,} values: {text}"

    def _windows(self) -> list[float] | None:
        """Medians of eighths of its course; None before there is enough of it."""
        values = self._medians
        if self.seen < _FEWEST or len(values) < 2 * _WINDOWS:
            return None
        bounds = [len(values) * part // _WINDOWS for part in range(_WINDOWS + 1)]
        return [median(values[a:b]) for a, b in pairwise(bounds)]

    def _noise(self) -> float:
        """The standard deviation of one kept value about its neighbours."""
        # Of differences, so that the trend itself does not count as noise.
        steps = [b - a for a, b in pairwise(self._medians)]
        return _MAD * _deviation(steps) / math.sqrt(2)


def _deviation(values: Sequence[float]) -> float:
    middle = median(values)
    return median([abs(value - middle) for value in values])


def plain_baseline(metrics: dict[str, float | int | None]) -> list[tuple[str, float, float]]:
    """Name, value and baseline of metrics that have one: `val_loss_baseline`, `mirror_dice`."""
    found = []
    for name, value in metrics.items():
        short = name.removeprefix("val/").removeprefix("val_")
        names = (f"{name}_baseline", f"{name}/baseline", f"baseline_{short}", f"mirror_{short}")
        plain = next((metrics[other] for other in names if metrics.get(other) is not None), None)
        if value is not None and plain is not None:
            found.append((name, float(value), float(plain)))
    return found


def awake_seconds() -> float:
    """Seconds since the boot, those in suspend left out."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def lifetime_of(run: Run, now: Moment) -> float | None:
    """Seconds since a run began, by the boot's clock where its record has it; None: not known."""
    return None if run.begin is None else seconds_between(run.begin, now)


class LastChange:
    """The last change of one file with something in it, or of the newest of several, as seen."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._seen: tuple[Path, int, int] | None = None
        self._looked: float | None = None
        self._at: float | None = None

    def seen_at(self, now: float, boot: float, most: float | None) -> float | None:
        """When it changed, in awake seconds of the boot; None while it is empty or missing.

        `now` is the moment of `boot` by the wall clock (unix s). What its time says counts between
        two looks only, where no clock can be wrong by more; at the first look no more than `most`
        seconds back.
        """
        found = None if self.path is None else status_of(self.path)
        if self.path is None or found is None or not found.st_size:
            return None
        if (sign := (self.path, found.st_mtime_ns, found.st_size)) != self._seen:
            age = max(0.0, now - found.st_mtime)
            bound = most if self._looked is None else boot - self._looked
            self._seen, self._at = sign, boot - (age if bound is None else min(age, bound))
        self._looked = boot
        return self._at


class PaceHistory:
    """Paces of blocks of three minutes or more, each until a step comes, without the first."""

    def __init__(self) -> None:
        self._paces: deque[float] = deque(maxlen=_BLOCKS)
        self._from: tuple[float, int] | None = None
        self._blocks = 0

    def note(self, time: float | None, step: int | None, epoch: int | None) -> None:
        """The step (or epoch, where no steps are told) last told of, at `time` (unix seconds)."""
        done = step if step is not None else epoch
        if time is None or done is None:
            return
        # A count that fell belongs to a new attempt or epoch.
        if self._from is None or done < self._from[1]:
            self._from = (time, done)
            self._blocks = 0
            self._paces.clear()
            return
        began, first = self._from
        if time - began >= BLOCK_S and done > first:
            self._blocks += 1
            if self._blocks > 1:
                self._paces.append((time - began) / (done - first))
            self._from = (time, done)

    @property
    def recent(self) -> float | None:
        """Seconds per step in the last two blocks; None before there are enough."""
        if len(self._paces) < _FEWEST_PACES + 2:
            return None
        return (self._paces[-1] + self._paces[-2]) / 2

    @property
    def usual(self) -> float | None:
        """Seconds per step before; None before there are enough blocks."""
        if len(self._paces) < _FEWEST_PACES + 2:
            return None
        return median(list(self._paces)[:-2])
