"""What a run is judged by: its metric, and whether more of one is better; one answer for all."""

from collections.abc import Callable, Iterable, Sequence

from runners.model.metric_rule import BestMetric
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.watch.metrics.sample import higher_is_better

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
