"""A chart as files: what is drawn as SVG, and every value behind it as CSV."""

import csv
import io
import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.host.files import replace
from runners.model.run import Run
from runners.watch.metrics.series import Series
from tui.views.json_values import iso
from tui.views.metrics.chart_svg import SvgCurve, chart_svg
from tui.views.metrics.curves import AxisName, by_time, places, stretch_of

COLUMNS = (
    *("metric", "run", "name", "step", "epoch", "time"),
    *("seconds", "gpu_hours", "dollars", "value"),
)
_OVER_TIME: tuple[AxisName, ...] = ("time", "GPU-hours", "dollars")
Rows = Sequence[tuple[Run, Mapping[str, Series]]]


def write_chart(
    folder: Path,
    name: str,
    title: str,
    curves: Sequence[SvgCurve],
    runs: Rows,
    axis: AxisName,
    log: bool,
    unit: str = "",
    span: tuple[float, float] = (0.0, 1.0),
) -> list[Path]:
    """Write metric `name` as `METRIC-TIME.svg` and `.csv` into `folder`; both paths.

    `span` is the part of the x axis that is drawn, 0 to 1. Raises OSError.
    """
    ends = [
        x
        for drawn in curves
        if len(drawn.curve.xs)
        for x in (drawn.curve.xs[0], drawn.curve.xs[-1])
    ]
    least, wide = (min(ends), max(ends) - min(ends)) if ends else (0.0, 0.0)
    low, high = (least + part * wide for part in span)
    picture = chart_svg(title, curves, axis, log, unit, low=low, high=high)
    stem = f"{_file_name(name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    paths = [folder / f"{stem}.svg", folder / f"{stem}.csv"]
    for path, text in zip(paths, (picture, chart_csv(name, runs)), strict=True):
        replace(path, text.encode("utf-8", "replace"))
    return paths


def chart_csv(name: str, runs: Rows) -> str:
    """Every value of metric `name` in `runs`, a line each, as CSV; unknown is empty.

    `seconds`, `gpu_hours` and `dollars` count from the start of the value's own run.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run, series in runs:
        part = stretch_of(run, series, name)
        if part.series is None:
            continue
        measured = part.series
        unknown = [math.nan] * len(measured)
        over = [places(part, axis) or unknown for axis in _OVER_TIME]
        steps = unknown if by_time(measured) else measured.steps
        for i, value in enumerate(measured.values):
            numbers = (column[i] for column in over)
            when = iso(measured.times[i]) if measured.times[i] > 0 else ""
            cells = (_number(steps[i]), _number(measured.epochs[i]), when, *map(_number, numbers))
            writer.writerow((name, run.id, run.name, *cells, value))
    return out.getvalue()


def _number(value: float) -> str:
    return f"{value:.12g}" if math.isfinite(value) else ""


def _file_name(name: str) -> str:
    """A metric's name as part of a file's: `train/loss` is `train-loss`."""
    return re.sub(r"[^\w.%@+-]+", "-", name).strip("-.")[:48] or "metric"
