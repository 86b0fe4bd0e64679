"""From values to dots and back, and the numbers beside an axis."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_GREATEST = 1e300
_ROUNDING = 1e-12


class Scale(NamedTuple):
    """Values from `low` to `high` on a length of 1, evenly or by their logarithm.

    `constant` is the one value of a metric that never changes, which stands in the middle.
    """

    low: float
    high: float
    log: bool = False
    constant: float | None = None

    def place(self, value: float) -> float:
        """Where a value stands, 0 at `low`; below the least that a logarithm has, at the bottom."""
        if self.log:
            if value <= 0:
                return 0.0
            return (math.log(value) - math.log(self.low)) / (
                math.log(self.high) - math.log(self.low)
            )
        return (value - self.low) / (self.high - self.low)


def scale_for(least: float, greatest: float, log: bool) -> Scale:
    """A scale with a little room around the values; without room where all are alike.

    What a float can hardly hold lies at its ends.
    """
    least, greatest = (min(_GREATEST, max(-_GREATEST, end)) for end in (least, greatest))
    if greatest - least <= _ROUNDING * max(abs(least), abs(greatest)):
        least = greatest  # smoothing leaves such differences of a constant
    if log and greatest > 0:
        greatest = max(greatest, 1 / _GREATEST)
        low = max(least, 1 / _GREATEST) if least > 0 else greatest / 1e6
        return (
            Scale(low / 1.3, greatest * 1.3, True, low)
            if low == greatest
            else Scale(low, greatest, True)
        )
    if least == greatest:
        room = abs(least) * 0.1 or 1.0
        return Scale(least - room, greatest + room, constant=least)
    room = (greatest - least) * 0.02
    step = stride((greatest - least) / 50)
    # A quantity that is never negative begins at 0 where that is near.
    low = (
        0.0 if 0 <= least <= (greatest - least) * 0.15 else math.floor((least - room) / step) * step
    )
    # Ends at whole strides stay where they are while a live curve goes on: what stands is not
    # painted again.
    return Scale(low, math.ceil((greatest + room) / step) * step)


def stride(size: float) -> float:
    """The next larger of 1, 2 and 5 times a power of ten."""
    if not 1 / _GREATEST < size < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= size * 0.999_999)


def ticks(scale: Scale, most: int) -> list[float]:
    """About `most` round values inside a scale, two or more, rising: its only one when constant."""
    if scale.constant is not None:
        return [scale.constant]
    if scale.log:
        powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
        tens = [10.0**power for power in powers]
        marks = [factor * ten for ten in tens for factor in (1, 2, 5)]
        marks = [mark for mark in marks if scale.low <= mark <= scale.high]
        if len(marks) > most and len([mark for mark in marks if mark in tens]) > 1:
            marks = [mark for mark in marks if mark in tens]
        if len(marks) > 1:
            return marks[:: math.ceil(len(marks) / most)]
    steps = [stride((scale.high - scale.low) / max(1, most))]
    while len(steps) < _STEPS:
        steps.append(stride(steps[-1] / 2.5))
    return _marks(scale, steps)


_STEPS = 4
"""A step of two and a half times a scale is less than half of it three steps later."""


def _marks(scale: Scale, steps: Iterable[float]) -> list[float]:
    """The whole multiples inside a scale of the first of these steps that has two there."""
    marks: list[float] = []
    for step in steps:
        first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
        marks = [k * step for k in range(first, last + 1)]
        if len(marks) > 1:
            break
    return marks


_CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


def clock_ticks(scale: Scale, most: int) -> list[float]:
    """About `most` round times inside a scale of seconds, two or more, rising."""
    wanted = (scale.high - scale.low) / max(1, most)
    if scale.constant is not None or wanted <= 1:
        return ticks(scale, most)
    days = 86400 * stride(wanted / 86400)
    enough: list[float] = [seconds for seconds in _CLOCK if seconds >= wanted]
    less = [seconds for seconds in reversed(_CLOCK) if seconds < wanted]
    return _marks(scale, (*(enough or [days])[:1], *less))


def distinct(values: Sequence[float], write: Callable[[float, int], str]) -> list[str]:
    """Each value by `write(value, digits)`, with as few digits from 3 on as make them differ."""
    texts: list[str] = []
    for digits in range(3, 16):
        texts = [write(value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def short(value: float, digits: int = 3) -> str:
    """A number in few cells: `0.0123`, `1.5e-05`, `12.3k`, `2M`."""
    value += 0.0  # no -0
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    for unit, mark in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit * 0.9995:
            return f"{value / unit:.{digits}g}{mark}"
    if size and size < 1e-3:
        mantissa, _, exponent = f"{value:.{max(0, digits - 2)}e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{digits}g}"
