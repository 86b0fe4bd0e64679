"""The median rule over a sweep: a run that does clearly worse than the others did is stopped.

A run is hopeless when its best value so far is worse than the median of the others' running means
up to the same step (Golovin et al., "Google Vizier", KDD 2017, section 3.2). Pure but for `main`,
which watches one sweep from a process of its own until its last run has ended.
"""

import math
import sys
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from runners.guard.sweep_watch import SweepWatch, lock_of
from runners.host.alone import run_alone
from runners.host.files import append_event, is_gone
from runners.lifecycle.control.stop import request_stop
from runners.model.endings import Ending, EndingCause
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.state.decoding import read_or_raise
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run
from runners.watch.metrics.judging import best_metric
from runners.watch.metrics.sample import headline

if TYPE_CHECKING:
    from runners.watch.metrics.run_metrics import RunMetrics
    from runners.watch.metrics.series import Series

LEAST_OTHERS = 3
LEAST_VALUES = 5
_EVERY_S = 3.0


class Course(NamedTuple):
    """The values of the metric in one run so far, at rising steps."""

    steps: Sequence[float]
    values: Sequence[float]


def hopeless(
    courses: Mapping[str, Course], live: Sequence[str], higher: bool, metric: str
) -> dict[str, str]:
    """Which of `live` the median rule stops, and why: with values and others enough at its step."""
    found = {}
    for run_id in live:
        mine = courses.get(run_id)
        if mine is None or len(mine.values) < LEAST_VALUES:
            continue
        step, best = mine.steps[-1], _best(mine.values, higher)
        means = [
            mean
            for other, course in courses.items()
            if other != run_id and course.steps and course.steps[-1] >= step
            if (mean := _mean_until(course, step)) is not None
        ]
        if len(means) < LEAST_OTHERS:
            continue
        middle = median(means)
        if best < middle if higher else best > middle:
            found[run_id] = (
                f"hopeless by the median rule: best {metric} {best:.4g} at step {step:g}, "
                f"median of {len(means)} others {middle:.4g}"
            )
    return found


def _best(values: Sequence[float], higher: bool) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return max(finite, default=-math.inf) if higher else min(finite, default=math.inf)


def _mean_until(course: Course, step: float) -> float | None:
    values = course.values[: bisect_right(course.steps, step)]
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else None


class _SweepWatcher:
    """Looks at the runs of one sweep again and again, and stops the hopeless ones, each once."""

    def __init__(self, state: StateDirectory, rule: SweepWatch) -> None:
        self._state = state
        self._rule = rule
        self._metrics: dict[str, RunMetrics] = {}
        self._stopped: set[str] = set()
        self._trouble = ""

    def observe(self) -> bool:
        """`step`; where that fails, it is said at the live runs, once, and tried again."""
        try:
            return self.step()
        except OSError:
            return True  # perhaps for a moment only
        except Exception as error:  # the boundary: no odd file ends the rule of a whole sweep
            with suppress(OSError):
                return self._say_trouble(repr(error))
            return True

    def _say_trouble(self, trouble: str) -> bool:
        """Say at the live runs, once, that they cannot be judged; whether there are any."""
        live = set(self._rule.runs).intersection(live_run_ids(self._state))
        if trouble != self._trouble:
            self._trouble = trouble
            text = f"the runs of sweep {self._rule.group} cannot be judged: {trouble}"
            for run_id in live:
                append_event(self._state.run(run_id).supervisor_events, "alert", text=text)
        return bool(live)

    def step(self) -> bool:
        """Judge the runs as they stand; False once the last of them has ended."""
        # All readers of output: who only asks whether a sweep is watched needs none of them.
        from runners.watch.metrics.run_metrics import RunMetrics

        present = [run for run in self._rule.runs if not is_gone(self._state.run(run).path)]
        runs = [read_run(self._state, run_id) for run_id in present]
        for run in runs:
            if run.started is not None:
                known = self._metrics.get(run.id)
                if known is None or known.run.is_live:
                    metrics = self._metrics.setdefault(run.id, RunMetrics(run))
                    while metrics.poll(run):
                        pass
        name = self._rule.metric or self._headline()
        higher = None if name is None else self._higher(name)
        if name is not None and higher is not None:
            live = [run.id for run in runs if run.is_live and run.id not in self._stopped]
            for run_id, reason in hopeless(self._courses(name), live, higher, name).items():
                self._stop(next(run for run in runs if run.id == run_id), reason)
        return any(run.is_live for run in runs)

    def _headline(self) -> str | None:
        judged = [
            found for metrics in self._metrics.values() if (found := best_metric(metrics.run))
        ]
        if judged:
            return judged[0].metric
        return headline({name for metrics in self._metrics.values() for name in metrics.series()})

    def _higher(self, name: str) -> bool | None:
        return next((metrics.higher(name) for metrics in self._metrics.values()), None)

    def _courses(self, name: str) -> dict[str, Course]:
        found = {run_id: metrics.series().get(name) for run_id, metrics in self._metrics.items()}
        return {run_id: _course(series) for run_id, series in found.items() if series is not None}

    def _stop(self, run: Run, reason: str) -> None:
        self._stopped.add(run.id)
        with suppress(FresnelError, OSError):
            ending = Ending(cause=EndingCause.HOPELESS, detail=reason)
            request_stop(self._state, run, ending=ending)
            append_event(self._state.run(run.id).supervisor_events, "hopeless", reason=reason)


def _course(series: "Series") -> Course:
    """The values that may be a best: those that a sampler is told, too."""
    kept = [i for i, counts in enumerate(series.counts) if counts]
    return Course([series.steps[i] for i in kept], [series.values[i] for i in kept])


def main() -> None:
    """Watch the sweep named on the command line, behind the state folder; one process at most."""
    path = StateDirectory(Path(sys.argv[-2])).sweeps / f"{sys.argv[-1]}.json"
    run_alone(lock_of(path), lambda: _watch(path))


def _watch(path: Path) -> None:
    """Watch the sweep of the file at `path`. Raises OSError where that cannot be read just now."""
    try:
        rule = read_or_raise(path, SweepWatch)
    except (FileNotFoundError, ValueError):
        rule = None
    if rule is not None:
        watcher = _SweepWatcher(StateDirectory(path.parents[1]), rule)
        while not is_gone(path) and watcher.observe():
            time.sleep(_EVERY_S)
    for suffix in (".json", ".log", ".lock"):
        path.with_suffix(suffix).unlink(missing_ok=True)
