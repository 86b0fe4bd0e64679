"""Final and best values of a run from all that it wrote, made once at its end, in background."""

import math
import os
import sys
from decimal import Decimal
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.event_stream import EventStream
from runners.watch.metrics.final import FILE, FinalMetric, FinalReport, as_judged, read_final
from runners.watch.metrics.judging import higher_by
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.sample import headline, not_finite
from runners.watch.metrics.series import Series, best_at, downsample

_MOST_OUTPUT = 1 << 30
_TREND_BUCKETS = 60
_LOOKED_AT = 200
_OTHERS = ("gpus", "cost")


def keep_final(run: Run) -> FinalReport:
    """Read all of an ended run, and keep the report where its folder takes it."""
    report = _made(run)
    try:
        replace(Path(run.directory) / FILE, msgspec.json.encode(report))
    except OSError:
        pass  # a full or read-only disk: the report is made again each time
    return as_judged(run, report)


def make_final(run: Run) -> FinalReport:
    """Read all that a run wrote; of an attempt's output of more than 1 GiB, beginning and end."""
    return as_judged(run, _made(run))


def _made(run: Run) -> FinalReport:
    """The report as the run's preset judges it: what its user says may change."""
    tracker = ProgressTracker()
    metrics = RunMetrics(run, _MOST_OUTPUT, tracker=tracker)
    while metrics.poll():
        pass
    found = {
        name: series for name, series in metrics.series().items() if series.source not in _OTHERS
    }
    events = EventStream(Path(run.directory) / "events.jsonl")
    events.poll()
    # What the run itself reports comes before what was guessed from its output.
    source = events if events.metrics or events.step is not None else tracker
    name = headline(found)
    spec = run.plan.spec if run.plan else None
    progress = source.progress(run.ended or 0.0, *run.totals)
    if progress.step is None and progress.epoch is None and name is not None:
        progress = msgspec.structs.replace(progress, step=_whole(found[name]))
    return FinalReport(
        run.ended,
        # An ended run has no remaining time, whatever its last line said.
        msgspec.structs.replace(progress, eta_s=None),
        {name: _metric(series).judged(higher_by(spec, name)) for name, series in found.items()},
        name,
        metrics.readers[0],
        () if name is None else _trend(found[name]),
        metrics.printed_paths,
    )


def _whole(series: Series) -> int | None:
    """The last step of values that were read from a file which counts steps."""
    return int(series.steps[-1]) if series.source not in ("output", "events") else None


def _metric(series: Series) -> FinalMetric:
    odd = not_finite(series.last)
    least = best_at(series.values, series.counts, False)
    most = best_at(series.values, series.counts, True)
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
        decimals=_decimals(series),
        finite=sum(map(math.isfinite, series.values)),
        not_finite=odd,
    )


def _decimals(series: Series) -> int | None:
    """The most digits behind the point among the newest values: a rounded one may show fewer."""
    newest = [Decimal(repr(value)) for value in series.values[-_LOOKED_AT:] if math.isfinite(value)]
    return max((max(0, -int(value.as_tuple().exponent)) for value in newest), default=None)


def _trend(series: Series) -> tuple[float, ...]:
    places = range(len(series))
    kept = downsample(places, series.values, _TREND_BUCKETS, 0, max(1, len(series) - 1))
    return tuple(series.values[i] for i in kept)


def main() -> None:
    """Make the report of the run in the folder `argv[1]`, once its ending is recorded."""
    # It may read gigabytes: the runs that still train come first.
    os.nice(10)
    folder = Path(sys.argv[1])
    run = read_run(StateDirectory(folder.parent.parent), folder.name)
    if not run.is_live and read_final(run) is None:
        keep_final(run)


if __name__ == "__main__":
    main()
