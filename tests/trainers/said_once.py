"""What a trainer's run tells of its metrics: each value under one name, from one source."""

from itertools import combinations
from pathlib import Path

from runners.model.states import State
from runners.watch.metrics.one_series import is_same
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.series import Series
from tests.support import make_run


def series_of(folder: Path, output: str) -> dict[str, Series]:
    """All that `metrics` shows of the run in `folder`, whose program printed `output`."""
    (folder / "output.log").write_text(output)
    metrics = RunMetrics(make_run(State.DONE, directory=str(folder), ended=2000.0))
    while metrics.poll():
        pass
    return metrics.series()


def told_twice(found: dict[str, Series]) -> list[tuple[str, str]]:
    """The names of each two with the same values; what never changes is left out."""
    changing = {name: one for name, one in found.items() if len({*one.values}) > 1}
    return [
        (first, second)
        for first, second in combinations(changing, 2)
        if is_same(changing[first], changing[second])
    ]
