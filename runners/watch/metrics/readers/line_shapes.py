"""A line that differs from one before in its numbers alone says the same of other numbers.

The expressions that read a line tell digits from other characters, and no digit from another. So
of lines of one shape (all but the digits of their numbers, however long) it is learnt once which
number goes where, from the line and two more with other digits. Where that is not plain, as of a
ratio, each line is read by itself.
"""

import re
from collections.abc import Callable
from typing import Any

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import number
from runners.watch.metrics.readers.line_position import StatedPlace

Reading = tuple[dict[str, float], StatedPlace]
"""What a line says: named values, and the place in the run."""

_NUMBER = late_pattern(r"(?<![\w.])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
_DIGIT = late_pattern(r"\d")
_ZEROS = str.maketrans("123456789", "000000000")
_MOST = 500
"""Shapes that are kept."""

_Key = tuple[str, ...]

_Source = tuple[int, float] | None
"""The number that a value is, and its sign; None for what is the same in all lines."""


class _Shape:
    """Where the numbers of its lines go."""

    def __init__(self, names: tuple[str, ...], fixed: tuple[object, ...], of: list[_Source]):
        self._names, self._fixed = names, fixed
        self._of = [(at, *source) for at, source in enumerate(of) if source is not None]

    def read(self, numbers: list[str]) -> Reading:
        """What a line with these numbers says."""
        found: list[Any] = list(self._fixed)
        for at, source, sign in self._of:
            found[at] = sign * float(numbers[source])
        return dict(zip(self._names, found, strict=False)), StatedPlace(*found[len(self._names) :])


class LineShapes:
    """Reads lines by `read`, those of a shape that came twice by what is known of it."""

    def __init__(self, read: Callable[[str], Reading]) -> None:
        """`read` is a function of the text alone."""
        self._read = read
        self._shapes: dict[_Key, _Shape | None] = {}
        self._once: set[_Key] = set()

    def read(self, text: str) -> Reading:
        """What `read` says of the line."""
        parts = _NUMBER.split(text)
        numbers = parts[1::2]
        key = *parts[::2], " ".join(numbers).translate(_ZEROS)
        shape = self._shapes.get(key)
        if shape is not None:
            return shape.read(numbers)
        found = self._read(text)
        if key in self._once:
            self._keep(key, self._learn(parts, found))
        elif key not in self._shapes:
            if len(self._once) >= _MOST:
                self._once.clear()
            self._once.add(key)
        return found

    def _keep(self, key: _Key, shape: _Shape | None) -> None:
        if len(self._shapes) >= _MOST:
            self._shapes.clear()
        self._once.discard(key)
        self._shapes[key] = shape

    def _learn(self, parts: list[str], found: Reading) -> _Shape | None:
        lines = [parts, *(_with_digits(parts, first) for first in (0, 1))]
        numbers = [[number(text) for text in line[1::2]] for line in lines]
        if any(len(set(column)) < len(lines) for column in zip(*numbers, strict=True)):
            return None  # what is the same in all of them may depend on it
        readings = [found, *(self._read("".join(line)) for line in lines[1:])]
        names = tuple(found[0])
        if any(tuple(values) != names for values, _ in readings):
            return None  # a number is part of a name
        rows = [(*values.values(), *place) for values, place in readings]
        sources: list[_Source] = []
        for column in zip(*rows, strict=True):
            if column == column[:1] * len(column):
                sources.append(None)
                continue
            source = _source(column, numbers)
            if source is None:
                return None
            sources.append(source)
        return _Shape(names, rows[0], sources)


def _with_digits(parts: list[str], first: int) -> list[str]:
    """The line with other digits, none of them 0, in its numbers; others for each `first` < 7."""
    place = first

    def other(found: re.Match[str]) -> str:
        nonlocal place
        place += 3
        return str(1 + (int(found[0]) + 1 + place % 7) % 9)

    return [_DIGIT.sub(other, part) if i % 2 else part for i, part in enumerate(parts)]


def _source(column: tuple[object, ...], numbers: list[list[float]]) -> _Source:
    """Which number of its line a value is in each of the lines; None for none, or for several."""
    found = [
        (i, sign)
        for i in range(len(numbers[0]))
        for sign in (1.0, -1.0)
        if all(value == sign * line[i] for value, line in zip(column, numbers, strict=True))
    ]
    return found[0] if len(found) == 1 else None
