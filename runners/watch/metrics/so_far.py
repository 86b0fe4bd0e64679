"""What is known of a run that has just ended, until the report of its whole output is made."""

from msgspec.structs import replace

from runners.model.run import Run
from runners.watch.metrics.final import FinalMetric, FinalReport
from runners.watch.metrics.followed import Extremes
from runners.watch.metrics.judging import higher
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.progress import at_end
from runners.watch.metrics.sample import not_finite


def report_so_far(run: Run, report: LiveReport) -> FinalReport:
    """The report by what its watcher kept, and the end of its output; read now.

    A best value is in it only where nothing of the run was left out.
    """
    report.poll(run, ended=True)
    report.finish()
    return reported(run, report)


def reported(run: Run, report: LiveReport) -> FinalReport:
    """What a run reported, all of which was read, as the report on its end."""
    course, best = report.course, report.best(run)
    metrics = {}
    held = report.held()
    for name, value in report.metrics.items():
        if name in held and name not in course.metrics:
            from runners.watch.metrics.series import metric_of  # few runs write files alone

            metrics[name] = metric_of(held[name]).judged(higher(run, name))
            continue
        known = course.extremes.get(name, Extremes())
        best_value, best_at = best.get(name, (None, None))
        metrics[name] = FinalMetric(
            last=None if not_finite(value) else value,
            step=known.last_at or 0.0,
            count=known.count,
            minimum=known.least,
            maximum=known.most,
            minimum_step=known.least_at,
            maximum_step=known.most_at,
            best=best_value,
            best_step=best_at,
            source="output" if report.readers else "events",
            axis=course.counted.removesuffix("s"),
            finite=known.finite,
            not_finite=not_finite(value),
            decimals=known.decimals,
        )
    progress = at_end(course.progress(run.ended or 0.0, *run.totals), run.state)
    if report.readers:
        # Nobody knows when the lines were written that are read only now.
        progress = replace(progress, rate=None, rate_unit="")
    return FinalReport(
        run.ended,
        progress,
        metrics,
        course.headline,
        report.readers,
        (*course.whole_trend, *list(course.trend)[-1:]),
        is_whole=False,
    )
