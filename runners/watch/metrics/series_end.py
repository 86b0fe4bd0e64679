"""What is kept of a series when its run has ended."""

import math

from runners.watch.metrics.final import FinalMetric
from runners.watch.metrics.sample import decimals_of, not_finite
from runners.watch.metrics.series import Series, best_at

_LOOKED_AT = 200


def metric_of(series: Series) -> FinalMetric:
    """What is kept of a series; its best value is nobody's before somebody says which it is."""
    odd = not_finite(series.last)
    least = best_at(series.values, series.counts, False)
    most = best_at(series.values, series.counts, True)
    newest = [value for value in series.values[-_LOOKED_AT:] if math.isfinite(value)]
    return FinalMetric(
        last=None if odd else series.last,
        step=series.steps[-1],
        count=len(series),
        minimum=None if least is None else series.values[least],
        maximum=None if most is None else series.values[most],
        minimum_step=None if least is None else series.steps[least],
        maximum_step=None if most is None else series.steps[most],
        source=series.source,
        axis=series.axis,
        # The most among several: a rounded value may show fewer.
        decimals=max(map(decimals_of, newest), default=None),
        finite=sum(map(math.isfinite, series.values)),
        not_finite=odd,
    )
