"""Final and best values of a run from all that it wrote, made once at its end, in background."""

import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from runners.host.bounded_glob import SearchBudget
from runners.host.files import replace as replace_file
from runners.host.files import size_of
from runners.host.newest_file import NewestFile
from runners.host.pressure import is_busy
from runners.host.printed_paths import PrintedScan, noted_paths
from runners.model.run import NO_LABELS, Run
from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from runners.watch.appeared import beside_short_run
from runners.watch.metrics.checkpoints import checkpoint_files, own_until
from runners.watch.metrics.event_stream import EventStream
from runners.watch.metrics.final import FILE, FinalReport, as_judged, read_final, read_kept
from runners.watch.metrics.judging import higher_by
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.progress import ProgressTracker, at_end
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.sample import headline
from runners.watch.metrics.series import Series, downsample, metric_of
from runners.watch.metrics.so_far import reported

_MOST_OUTPUT = 1 << 30
_TREND_BUCKETS = 60
_LONG = 8 << 20
"""Bytes that are read in a second or less."""
_OTHERS = ("gpus", "cost")


def keep_final(run: Run, gently: bool = False) -> FinalReport:
    """Read all of an ended run, and keep the report where its folder takes it.

    `gently` takes half of a core at most while the machine is busy.
    """
    _note_beside(run)
    report = _made(run, gently)
    budget = SearchBudget()
    files = checkpoint_files(run, final=report, budget=budget)
    # Where not all were found, a newer one may be among those left out.
    if not budget.cut:
        report = replace(report, saved=_saved(run, files))
    _keep(run, report)
    return as_judged(run, report)


def _note_beside(run: Run) -> None:
    """Note what a short run has written silently where it worked, for the report and who looks."""
    if run.ended is not None and (found := beside_short_run(run, own_until(run, run.ended))):
        scan = PrintedScan(run.directory, run.plan.working_directory if run.plan else "")
        scan.add(found)
        with suppress(OSError):
            scan.save()


def _keep(run: Run, report: FinalReport) -> None:
    # On a full or read-only disk the report is made again each time.
    with suppress(OSError):
        replace_file(Path(run.directory) / FILE, msgspec.json.encode(report))


def add_noted(run: Run) -> None:
    """Add to a kept report the checkpoints that the run's watcher found after it was made.

    Whichever of the two is later calls this: the watcher, or who makes the report.
    """
    report = read_kept(run)
    if report is None:
        return
    new = [path for path in noted_paths(run.directory) if path not in report.checkpoints]
    if not new:
        return
    report = replace(report, checkpoints=(*report.checkpoints, *new), saved=None)
    files = checkpoint_files(run, final=report, budget=SearchBudget())
    _keep(run, replace(report, saved=_saved(run, files)))


def _saved(run: Run, files: Sequence[NewestFile]) -> float | None:
    """When the newest of them was written before the run's end: later ones are another run's."""
    until = math.inf if run.ended is None else own_until(run, run.ended)
    return max((file.modified for file in files if file.modified <= until), default=None)


def make_final(run: Run) -> FinalReport:
    """Read all that a run wrote; of an attempt's output of more than 1 GiB, beginning and end."""
    return as_judged(run, _made(run))


def _made(run: Run, gently: bool = False) -> FinalReport:
    """The report as the run's preset judges it: what its user says may change."""
    return _followed(run, gently) or _read_whole(run, gently)


def _followed(run: Run, gently: bool) -> FinalReport | None:
    """The report on a long log by what its watcher read, if any, and the rest; None of parts.

    Of a short one all is read: that tells where files and output say the same.
    """
    folder = Path(run.directory)
    size = size_of(folder / "output.log") + size_of(folder / "events.jsonl")
    if run.is_live or size < _LONG:
        return None
    report, left, unread = LiveReport(run), size + 1, size
    while unread and unread < left and report.is_whole(run):
        before = time.thread_time()
        report.poll(run, thorough=True, follow=True, ended=True)
        left, unread = unread, report.unread
        if gently and unread:
            _rest(before)
    report.finish()
    if unread or not report.is_whole(run):
        return None
    launched = replace(run, labels=NO_LABELS)
    return replace(reported(launched, report), is_whole=True, checkpoints=report.printed.poll().all)


def _poll(metrics: RunMetrics, gently: bool) -> bool:
    before = time.thread_time()
    more = metrics.poll()
    if gently and more:
        _rest(before)
    return more


def _rest(since: float) -> None:
    """As long as was computed since then (thread time), where others want to compute too."""
    if is_busy():
        time.sleep(time.thread_time() - since)


def _read_whole(run: Run, gently: bool) -> FinalReport:
    tracker = ProgressTracker()
    metrics = RunMetrics(run, _MOST_OUTPUT, tracker=tracker)
    while _poll(metrics, gently):
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
    if source.step is None and source.epoch is None and name is not None:
        last = found[name]
        if last.source not in ("output", "events"):
            source.reach(last.axis, last.steps[-1])
    progress = source.progress(run.ended or 0.0, *run.totals)
    return FinalReport(
        run.ended,
        at_end(progress, run.state),
        {name: metric_of(series).judged(higher_by(spec, name)) for name, series in found.items()},
        name,
        metrics.readers[0],
        () if name is None else _trend(found[name]),
        metrics.printed_paths,
    )


def _trend(series: Series) -> tuple[float, ...]:
    places = range(len(series))
    kept = downsample(places, series.values, _TREND_BUCKETS, 0, max(1, len(series) - 1))
    return tuple(series.values[i] for i in kept)


def main() -> None:
    """Make the report of the run in the folder `argv[1]`, once its ending is recorded."""
    # It may read gigabytes: the runs that still train come first.
    os.nice(10)
    folder = Path(sys.argv[1])
    run = read_run(RunDirectory.at(folder).home, folder.name)
    if not run.is_live and read_final(run) is None:
        keep_final(run, gently=True)
        add_noted(run)


if __name__ == "__main__":
    main()
