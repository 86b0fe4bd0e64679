"""What was kept of a run when it ended; only read here, as `list` reads hundreds of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from runners.model.run import Progress, Run
from runners.state.decoding import json_decoder, read
from runners.watch.metrics.judging import higher
from runners.watch.metrics.sample import NotFinite

FILE = "final.json"


def never_finite(metrics: Mapping[str, FinalMetric], headline: str | None) -> str:
    """That a run's headline never was a number, as a sentence; empty where it was."""
    found = metrics.get(headline or "")
    if found is None or found.not_finite is None or found.finite:
        return ""
    return f"every {headline} was {found.not_finite}"


class FinalMetric(msgspec.Struct, frozen=True):
    """One metric at a run's end; None for a value that is not finite, or a best nobody knows."""

    last: float | None
    step: float
    count: int
    minimum: float | None = None
    maximum: float | None = None
    minimum_step: float | None = None
    maximum_step: float | None = None
    best: float | None = None
    best_step: float | None = None
    source: str = ""
    axis: str = "step"
    """What `step` and `best_step` count: step, epoch, sample, line, timestep …"""
    decimals: int | None = None
    """Digits behind the point with which its values were written; None where nobody looked."""
    finite: int = 0
    """How many of its values were finite."""
    not_finite: NotFinite | None = None
    """What the last value is instead of a number; `last` is None then."""

    def judged(self, higher: bool | None) -> FinalMetric:
        """The metric with the best value that it has where more is better, or less, or neither."""
        if higher is None:
            return msgspec.structs.replace(self, best=None, best_step=None)
        best, step = self.minimum, self.minimum_step
        if higher:
            best, step = self.maximum, self.maximum_step
        return msgspec.structs.replace(self, best=best, best_step=step)

    @property
    def value(self) -> float | None:
        """The last value, as it is."""
        return self.last if self.not_finite is None else float(self.not_finite)


class FinalReport(msgspec.Struct, frozen=True):
    """How a run was when it ended at `ended` (unix seconds), and by which readers that is known."""

    ended: float | None
    progress: Progress
    metrics: dict[str, FinalMetric]
    headline: str | None = None
    readers: tuple[str, ...] = ()
    trend: tuple[float, ...] = ()
    checkpoints: tuple[str, ...] = ()
    saved: float | None = None
    """When its newest checkpoint was written (unix s), as the file says; None where none was."""
    is_whole: bool = True
    """False of what is said until all that the run wrote has been read."""

    @property
    def last(self) -> dict[str, float | int | None]:
        """Every metric's last value."""
        return {name: metric.value for name, metric in self.metrics.items()}


json_decoder(FinalReport)


def read_final(run: Run) -> FinalReport | None:
    """The report that was kept of this ended run; None when there is none of this ending."""
    found = read_kept(run)
    return found and as_judged(run, found)


def read_kept(run: Run) -> FinalReport | None:
    """As `read_final`, by the preset's judgement alone."""
    report = None if run.is_live else read(Path(run.directory) / FILE, FinalReport)
    # A run that was resumed and ended again has another report.
    return report if report is not None and report.ended == run.ended else None


def as_judged(run: Run, report: FinalReport) -> FinalReport:
    """The report, kept as the preset judges, as the run's user does, who may say so later."""
    judged = run.labels.best
    metric = report.metrics.get(judged.metric) if judged is not None else None
    if judged is None or metric is None:
        return report
    again = metric.judged(higher(run, judged.metric))
    return msgspec.structs.replace(report, metrics={**report.metrics, judged.metric: again})
