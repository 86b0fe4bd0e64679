"""What all readers have in common."""

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from runners.watch.metrics.numbers import number
from runners.watch.metrics.sample import Sample, metric_name

CLAIMED = Sample()
"""A reader's answer to a line of its kind that says nothing: no other reader is asked."""


def pairs_in(pattern: re.Pattern[str], text: str, start: int = 0) -> dict[str, float]:
    """The values that a pattern with the groups `name` and `value` finds, by the metrics' names."""
    found = pattern.finditer(text, start)
    return {metric_name(pair["name"]): number(pair["value"]) for pair in found}


class Reader(ABC):
    """Reads the lines of one attempt in order; keeps what later lines need from earlier ones.

    `notes` are what a person has to know to understand its values, `corrections` what it corrects
    when a preset names it. Until then nobody knows whether more or less of what is `ambiguous` is
    better, and none of it is a best. It is not given lines that contain none of its `marks`.
    """

    name: ClassVar[str] = ""
    notes: ClassVar[tuple[str, ...]] = ()
    corrections: ClassVar[tuple[str, ...]] = ()
    ambiguous: ClassVar[tuple[str, ...]] = ()
    marks: tuple[str, ...] = ("",)
    bars: tuple[str, ...] = ()
    """The `marks` of lines that draw a progress bar; without any, it is not given such lines."""
    named: bool = False
    """Whether a preset names this reader: only then does it correct what is misprinted."""
    sure: bool = False
    """Whether the output is certainly of this reader's kind, though no value was found yet."""
    epoch: float | None = None
    epochs: float | None = None
    """What any reader of this output found last."""
    stated: float | None = None
    """The steps of the whole run, where the program said so before its first."""
    missed: bool = False
    """Whether lines were left out: what is counted by lines is not known from then on."""
    from_zero: bool = False
    """Whether the program counts its epochs from 0."""

    def pass_gap(self) -> None:
        """Lines were left out before the next one."""
        self.missed, self.epoch = True, None

    @abstractmethod
    def read(self, line: str) -> Sample | None:
        """What a line says; None when it says nothing about the run's progress."""

    def finish(self) -> Sample | None:
        """What was still waited for when the output ended."""
        return None
