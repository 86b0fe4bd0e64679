"""A sweep whose values are suggested by a sampler, run after run, from the results so far."""

import msgspec


class SearchAxis(msgspec.Struct, frozen=True):
    """A parameter to search: one of `values`, or without them a number from `low` to `high`.

    Both ends are included; evenly in the logarithm if `log`.
    """

    key: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False


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
