"""A preset's own regular expressions: each named group is a metric, or a place in the run."""

import math
import re
from collections.abc import Sequence
from typing import ClassVar

from runners.model.spec import MetricPattern
from runners.watch.metrics.numbers import number
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.sample import Sample

_PLACES = ("step", "steps", "epoch", "epochs", "batch")


class PatternReader(Reader):
    """A preset's patterns, the first match decides; its `(?P<name>…)` may name the metric."""

    name: ClassVar[str] = "patterns"
    bars: tuple[str, ...] = ("",)
    marks: tuple[str, ...] = ("",)

    def __init__(self, patterns: Sequence[MetricPattern]) -> None:
        self._patterns = [(re.compile(pattern.line), pattern.offset) for pattern in patterns]

    def read(self, line: str) -> Sample | None:
        """The groups that took part in the match, moved by their offsets."""
        for pattern, offset in self._patterns:
            for found in pattern.finditer(line):
                groups = {
                    name: text for name, text in found.groupdict().items() if text is not None
                }
                if "name" in groups and "value" in groups:
                    groups[groups.pop("name").strip()] = groups.pop("value")
                numbers = {
                    name: number(text) + offset.get(name, 0.0) for name, text in groups.items()
                }
                places = {
                    name: at
                    for name in _PLACES
                    if not math.isnan(at := numbers.pop(name, math.nan))
                }
                return Sample(
                    numbers,
                    places.get("step"),
                    places.get("steps"),
                    places.get("epoch"),
                    places.get("epochs"),
                    batch=places.get("batch"),
                )
        return None
