"""The order of metrics on every surface, and which of them stands beside the loss.

Of a run that is judged by a metric, that one first; then what is measured on held-out data and
known to be better or worse, then losses, then what was pinned, the rest by name. A mean over
epochs follows the metric that it is of.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from runners.model.run import Run
from runners.watch.metrics.judging import best_metric, higher, higher_of_all
from runners.watch.metrics.sample import NO_HEADLINE, headline_rank

_HELD_OUT = re.compile(
    r"(?:^|[^a-z])(?:val|valid|validation|eval|evaluation|test|testing|dev|held_?out)\d*"
    r"(?:[^a-z]|$)"
)
_COST = re.compile(r"per_s|/s\b|runtime|seconds|time$|samples$|steps$")
"""What is measured of a validation that is no quality: how long it took."""


def step_metric(name: str, names: Collection[str]) -> str | None:
    """The metric by steps of which `name` is the mean over epochs; None where it is none of any."""
    if name.startswith("epoch/"):
        base = name.removeprefix("epoch/")
        return base if base in names else None
    if name.endswith("_epoch"):
        stem = name.removesuffix("_epoch")
        return next((base for base in (f"{stem}_step", stem) if base in names), None)
    return None


def is_validation(name: str) -> bool:
    """Whether a metric is a quality measured on held-out data."""
    text = name.lower()
    return _HELD_OUT.search(text) is not None and not _COST.search(text)


def validation_metric(run: Run, names: Iterable[str]) -> str | None:
    """What stands beside the loss: what the run is judged by, else the first of held-out data."""
    judged = best_metric(run)
    known = ordered(names, [run])
    first = known[0] if known else None
    if judged is not None and judged.metric in known:
        return judged.metric
    found = first is not None and is_validation(first) and higher(run, first) is not None
    return first if found else None


def ordered(names: Iterable[str], runs: Sequence[Run], pinned: Sequence[str] = ()) -> list[str]:
    """The metrics of some runs in order; `pinned` are those that their user wants before others."""
    every = list(names)
    judged = {best.metric for run in runs if (best := best_metric(run)) is not None}
    known = frozenset(every)

    def place(name: str) -> tuple[int, int, bool, int, str]:
        pin = pinned.index(name) if name in pinned else len(pinned)
        rank = headline_rank(name)
        if name in judged:
            return 0, pin, False, 0, name
        if is_validation(name) and higher_of_all(runs, name) is not None:
            return 1, pin, "loss" in name.lower(), rank, name
        if rank < NO_HEADLINE:
            return 2, 0, False, rank, name
        return (3 if name in pinned else 4), pin, False, 0, name

    def with_base(name: str) -> tuple[tuple[int, int, bool, int, str], bool]:
        base = step_metric(name, known)
        return (place(name), False) if base is None else (place(base), True)

    return sorted(every, key=with_base)
