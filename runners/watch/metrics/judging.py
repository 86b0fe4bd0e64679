"""What a run is judged by, whether more of a metric is better, and the order of its metrics.

One answer for every surface. Of a run that is judged by a metric, that one comes first; then what
is measured on held-out data and known to be better or worse, then losses, then what was pinned,
then what else is measured on held-out data, the rest by name and last what everything is compared
with, which does not change. A mean over epochs follows the metric that it is of.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from runners.model.late_pattern import late_pattern
from runners.model.metric_rule import BestMetric
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.watch.metrics.epoch_means import step_metric
from runners.watch.metrics.sample import NO_HEADLINE, headline_rank, higher_is_better

_HELD_OUT = late_pattern(
    r"(?:^|[^a-z])(?:val|valid|validation|eval|evaluation|test|testing|dev|held_?out)\d*"
    r"(?:[^a-z]|$)"
)
_COST = late_pattern(r"^best_|per_s|/s\b|runtime|seconds|time$|samples$|steps$")
"""What is told of a validation that is no quality of now: the best so far, how long it took."""
_BASELINE = late_pattern(r"(?:^|[^a-z])baselines?(?:[^a-z]|$)")

JudgeByMetric = Callable[[Sequence[str], str, bool | None], None]
"""Has runs, by id, judged by a metric of which more is better or not; empty: as by default."""


def best_metric(run: Run) -> BestMetric | None:
    """What the run is judged by, as its user says, else its preset; None where nobody does."""
    return run.labels.best or (run.plan.spec.best if run.plan else None)


def higher(run: Run, name: str) -> bool | None:
    """Whether more of a metric is better: by the user, the preset, or its name; None if unknown."""
    chosen = run.labels.best
    if chosen is not None and chosen.metric == name and chosen.higher is not None:
        return chosen.higher
    return higher_by(run.plan.spec if run.plan else None, name)


def next_judging(run: Run, metric: str) -> tuple[str, bool | None]:
    """What comes after how the run is judged now: by more of the metric, by less, by default.

    Where its name says which is better, that comes first.
    """
    first = higher_by(run.plan.spec if run.plan else None, metric) is not False
    chosen = run.labels.best
    if chosen is None or chosen.metric != metric:
        return metric, first
    return (metric, not first) if higher(run, metric) is first else ("", None)


def higher_of_all(runs: Iterable[Run], name: str) -> bool | None:
    """As `higher`, of several runs together: None where they do not agree, or nobody knows."""
    known = {upwards for run in runs if (upwards := higher(run, name)) is not None}
    return known.pop() if len(known) == 1 else None


def higher_by(spec: RunSpec | None, name: str) -> bool | None:
    """As `higher`, of runs that are not there yet."""
    if spec is not None:
        if spec.best is not None and spec.best.metric == name and spec.best.higher is not None:
            return spec.best.higher
        if name in spec.metrics.higher:
            return True
    return higher_is_better(name)


@lru_cache(4096)  # a table asks it of the same few names for each of its rows
def is_validation(name: str) -> bool:
    """Whether a metric is a quality measured on held-out data."""
    text = name.lower()
    other = _COST.search(text) or _BASELINE.search(text)
    return _HELD_OUT.search(text) is not None and not other


@lru_cache(4096)
def held_out_name(name: str) -> str:
    """What is measured, of a metric of held-out data: `psnr` of `held_out_psnr`."""
    return _HELD_OUT.sub("/", name.lower(), count=1).strip("/_.- ") or name


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
        if name in pinned:
            return 3, pin, False, 0, name
        if is_validation(name):
            return 4, pin, False, 0, name
        return (6 if _BASELINE.search(name) else 5), pin, False, 0, name

    def with_base(name: str) -> tuple[tuple[int, int, bool, int, str], bool]:
        base = step_metric(name, known)
        return (place(name), False) if base is None else (place(base), True)

    return sorted(every, key=with_base)
