"""What varies in a sweep; one whose values are suggested run after run, from the results so far."""

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from random import Random


class SearchAxis(msgspec.Struct, frozen=True):
    """A key that varies: one of `values`, or without them a number from `low` to `high`.

    Both ends are included; evenly in the logarithm if `log`.
    """

    key: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @property
    def first(self) -> str:
        """The first of its values, or the least."""
        return self.values[0] if self.values else self.ends[0]

    @property
    def ends(self) -> tuple[str, str]:
        """The least number and the greatest, whole; of values none."""
        return _whole_text(self.low), _whole_text(self.high)

    def draw(self, source: "Random") -> str:
        """One of them at random; of numbers with four digits, or more in a narrow range."""
        if self.values:
            return source.choice(self.values)
        if self.whole and not self.log:
            return str(source.randint(round(self.low), round(self.high)))
        if self.log:
            value = math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = source.uniform(self.low, self.high)
        return str(round(value)) if self.whole else self._shortest(value)

    def _shortest(self, value: float) -> str:
        """A value that was drawn, in so few digits that it stays where it is in the range."""
        near = min(self.high - self.low, value if self.log else math.inf) / 1000
        texts = (f"{value:.{digits}g}" for digits in range(4, 17))
        fits = (
            text
            for text in texts
            if self.low <= float(text) <= self.high and abs(float(text) - value) <= near
        )
        return next(fits, repr(value))


class Search(msgspec.Struct, frozen=True):
    """How a run's values are chosen when its turn in the queue comes.

    `sampler` is one of optuna's by its short name, `samples` the number of runs. The best value of
    `metric` counts (empty: of the one that tells a run in one number), the greatest if `higher`.
    """

    sampler: str
    axes: tuple[SearchAxis, ...]
    samples: int
    metric: str = ""
    higher: bool = False
    seed: int = 0


class SearchTrial(msgspec.Struct, frozen=True):
    """The values suggested to one run, and whether the sampler has been told how it ended."""

    number: int
    values: dict[str, str]
    reported: bool = False


class SearchRecord(msgspec.Struct, frozen=True):
    """trials.json: a search, and its trials by run."""

    search: Search
    trials: dict[str, SearchTrial] = {}


def _whole_text(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
