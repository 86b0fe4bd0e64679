"""The metrics of the runs on the page and of those they were resumed from, read in pieces."""

import time
from collections.abc import Sequence
from pathlib import Path

from runners.cost.cost_reader import CostCurve
from runners.host.files import modified_at
from runners.model.run import Run
from runners.state.layout import RunDirectory
from runners.watch.metrics.lineage import ancestors
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.series import Series

_PIECE = 64 * 1024
_PATIENCE_S = 0.03
"""How long keys may have to wait for a piece that is being read."""
_MOST_OUTPUT = 8 << 20

Line = list[tuple[Run, dict[str, Series]]]
"""A run, the last, and those it was resumed from, with their series."""


class CurveStore:
    """What is known of each run; owned by the thread that reads."""

    def __init__(self) -> None:
        self._metrics: dict[str, RunMetrics] = {}
        self._before: dict[str, list[Run]] = {}
        self._whole: set[str] = set()
        self._turn = 0
        self._prices: dict[Path, float] = {}

    def read(self, runs: Sequence[Run]) -> bool:
        """Read on in `runs` and their ancestors for a moment; True while there is more to read."""
        wanted = self._with_ancestors(runs)
        for run_id in self._metrics.keys() - {run.id for run in wanted}:
            del self._metrics[run_id]
            self._whole.discard(run_id)
        self._look_at_prices(wanted)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            unread = [run for run in wanted if run.id not in self._whole]
            if not [run for run in self._in_turn(unread) if self._read_on(run)]:
                return False
            if time.monotonic() > deadline:
                return True

    def _look_at_prices(self, runs: Sequence[Run]) -> None:
        """Have ended runs read again when a session's price may have been corrected."""
        prices = {
            path: modified_at(path)
            for path in {RunDirectory.at(run.directory).home.session for run in runs}
        }
        if prices != self._prices:
            self._prices = prices
            self._whole.clear()

    def _in_turn(self, runs: list[Run]) -> list[Run]:
        """Another one first each time, so that none waits for the others."""
        self._turn += 1
        at = self._turn % len(runs) if runs else 0
        return runs[at:] + runs[:at]

    def _read_on(self, run: Run) -> bool:
        """Read a piece of one run; True while there is more of it."""
        metrics = self._metrics.get(run.id) or self._metrics.setdefault(
            run.id, RunMetrics(run, _MOST_OUTPUT, CostCurve(RunDirectory.at(run.directory).home))
        )
        more = metrics.poll(run, _PIECE)
        if not run.is_live and not more:
            self._whole.add(run.id)  # what has ended stays as it is, but for its price
        return more

    def line(self, run: Run, joined: bool = True) -> Line:
        """The run with its series, behind those it was resumed from; empty before it was read."""
        if run.id not in self._metrics:
            return []
        before = self._before.get(run.id, []) if joined else []
        known = [
            (ancestor, self._metrics[ancestor.id])
            for ancestor in before
            if ancestor.id in self._metrics
        ]
        line = [(ancestor, metrics.series()) for ancestor, metrics in known]
        return [*line, (run, self._metrics[run.id].series())]

    def notes(self, run_id: str) -> list[str]:
        """What has to be known of a run's values."""
        metrics = self._metrics.get(run_id)
        return metrics.notes if metrics is not None else []

    def settings(self, run_id: str) -> dict[str, object]:
        """What a run told of its settings."""
        metrics = self._metrics.get(run_id)
        return dict(metrics.settings) if metrics is not None else {}

    def _with_ancestors(self, runs: Sequence[Run]) -> list[Run]:
        """Each run once, those on the page as they stand now."""
        known = self._before
        self._before = {
            run.id: known[run.id] if run.id in known else ancestors(run) for run in runs
        }
        found = {ancestor.id: ancestor for run in runs for ancestor in self._before[run.id]}
        return list({**found, **{run.id: run for run in runs}}.values())
