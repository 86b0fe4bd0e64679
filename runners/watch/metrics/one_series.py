"""One quantity, one series: what a run says of the same metric in several places is put together.

Two series are one where they have one name, spelled alike, and the same values as far as the less
exactly written one goes; the fuller one stands for both. Where they differ both stay, apart.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby

from runners.watch.metrics.sample import decimals_of
from runners.watch.metrics.series import Series
from runners.watch.metrics.series_set import SeriesSet

_LOOKED_AT = 200
"""The newest values of the shorter one tell."""
_SINGLE = 1e-6
"""TensorBoard keeps values as 32-bit floats, which agree with others to seven digits."""
_GROWN = 1.1
_TRAIN = re.compile(r"^(?:train|training)[/_]")
_RATE = ("lr", "learning_rate")


class SeriesMerger:
    """Puts the series of one run's sources together; keeps what it found out about them."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, str, str, str], tuple[int, bool]] = {}
        self.apart: list[str] = []
        """A sentence for each metric of which two sources say different things."""

    def merge(self, collections: Iterable[SeriesSet]) -> dict[str, Series]:
        """Every series by name; `also` of each says where else its values stand.

        What comes first keeps its name; a series of another source that differs is named by that.
        """
        found: dict[str, Series] = {}
        self.apart = []
        for collection in collections:
            for name, series in collection.filled().items():
                series.also = ()
                self._add(found, name, series)
        return found

    def _add(self, found: dict[str, Series], name: str, series: Series) -> None:
        for spelled in spellings(name):
            known = found.get(spelled)
            if known is None or known.source == series.source:
                continue
            if self._is_same(known, series):
                # What a program prints at its end has no step of its own.
                is_summary = len(known) == len(series) == 1 and known.source == "output"
                fuller = series if is_summary or _values_in(series) > _values_in(known) else known
                sources = (known.source, *known.also, series.source)
                fuller.also = tuple(
                    dict.fromkeys(source for source in sources if source != fuller.source)
                )
                found[spelled] = fuller
                return
        if name in found:
            self.apart.append(
                f"{name} differs between {found[name].source} and {series.source}: both are shown"
            )
            name = f"{series.source}/{name}"
        found[name] = series

    def _is_same(self, first: Series, second: Series) -> bool:
        key = first.source, first.name, second.source, second.name
        count = len(first) + len(second)
        known = self._verdicts.get(key)
        # A curve that is drawn twice a second is not compared anew for each value.
        if known is None or not known[0] <= count <= known[0] * _GROWN:
            known = self._verdicts[key] = count, is_same(first, second)
        return known[1]


def spellings(name: str) -> list[str]:
    """The names by which others may call a metric, its own first."""
    plain = _TRAIN.sub("", name)
    found = [name, plain, name.replace("/", "_"), plain.replace("/", "_")]
    found += [f"train_{plain}", f"train/{plain}", plain.removesuffix("_step")]
    found += _RATE if plain in _RATE else ()
    return list(dict.fromkeys(found))


def is_same(first: Series, second: Series) -> bool:
    """Whether two series have the same values, wherever both have some."""
    short, full = (first, second) if len(first) <= len(second) else (second, first)
    if len(short) == 1 and _close(short.last, full.last):
        return True  # printed, or written into a summary, at the end
    at_steps = list(_at_steps(short, full)) if short.axis == full.axis else []
    if 2 * len(at_steps) >= min(len(short), _LOOKED_AT):
        return all(at_steps) or (len(short) > 1 and _is_part(short, full))
    return len(short) > 1 and _is_part(short, full)


def _at_steps(short: Series, full: Series) -> Iterator[bool]:
    """For each of the newest places that both have, whether they have one value there."""
    for i in range(max(0, len(short) - _LOOKED_AT), len(short)):
        step = short.steps[i]
        low, high = bisect_left(full.steps, step), bisect_right(full.steps, step)
        if low < high:
            yield any(_close(short.values[i], full.values[k]) for k in range(low, high))


def _is_part(short: Series, full: Series) -> bool:
    """Whether the newest values of one stand in the other in the same order."""
    wanted, at = short.values[-_LOOKED_AT:], 0
    for value in full.values:
        if at < len(wanted) and _close(wanted[at], value):
            at += 1
    return at == len(wanted)


def _values_in(series: Series) -> int:
    """How many values it has; what is printed again and again, as bars do, is one value."""
    if series.source != "output":
        return len(series)
    return sum(1 for _ in groupby(series.values))


def _close(a: float, b: float) -> bool:
    """Whether two numbers are one, as far as the less exactly written one goes."""
    if a == b or (a != a and b != b):
        return True
    if not (math.isfinite(a) and math.isfinite(b)):
        return False
    unit = 10.0 ** -min(decimals_of(a), decimals_of(b))
    return abs(a - b) <= max(0.5001 * unit, _SINGLE * max(abs(a), abs(b)))
