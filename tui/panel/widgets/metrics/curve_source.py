"""What the metrics page draws from: the runs of this machine, and those of another beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import msgspec

from runners.cost.run_costs import RunCost
from runners.model.run import Progress, Run, RunRecord
from runners.places.run_row import RunRow
from runners.places.ssh.machine import LinkedHost
from runners.places.ssh.status_text import link_text
from tui.snapshot.curve_store import CurveStore
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.remote_curves import RemoteCurveStore
from tui.views.runs.run_view import RunView


class CurveSource:
    """The runs of this machine and their curves."""

    def __init__(self, store: CurveStore | None = None) -> None:
        self.store = store or CurveStore()
        self.changed: Callable[[], None] = lambda: None
        """Called when curves came from elsewhere; in any thread."""

    def add_runs(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """The snapshot with all runs that may be drawn."""
        return snapshot

    def status(self, drawn: Sequence[str]) -> str:
        """What is to be known of the drawn runs, by id, beside what the page knows itself."""
        return ""

    def close(self) -> None:
        """Nothing more is wanted."""


class HostCurves(CurveSource):
    """Besides, the runs of another machine; their curves come over its link until it is closed."""

    def __init__(self, host: LinkedHost, letters: Callable[[], Mapping[str, str]]) -> None:
        """`letters` are those of the live runs of all other machines."""
        self._host = host
        self._remote_letters = letters
        self._remote_store = RemoteCurveStore(host, lambda: self.changed())
        super().__init__(self._remote_store)

    def add_runs(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """The snapshot, the machine's runs before those of this one."""
        latest = self._host.snapshot
        remote = [self.view(run) for run in latest.newest_first] if latest is not None else []
        letters = {**snapshot.letters, **self._remote_letters()}
        return msgspec.structs.replace(snapshot, runs=(*remote, *snapshot.runs), letters=letters)

    def status(self, drawn: Sequence[str]) -> str:
        """How the machine is reached, where it is not; else which curves are still to come."""
        name = self._host.name
        if not self._host.is_reached:
            return f" · {name}: {link_text(self._host.status)}"
        followed = [curves for run in drawn if (curves := self._remote_store.followed(run))]
        problems = sorted({curves.problem for curves in followed if curves.problem})
        if not problems and not all(curves.has_come for curves in followed):
            problems = [f"waiting for {name}…"]
        return "".join(f" · {problem}" for problem in problems)

    def close(self) -> None:
        """Follow no curves any longer."""
        self._remote_store.close()

    def view(self, row: RunRow) -> RunView:
        """A run of the machine as this page shows it; its plan is known once its curves came."""
        curves = self._remote_store.followed(f"{self._host.name}/{row.id}")
        run = curves.line[-1][0] if curves is not None and curves.line else _brief(row)
        name = f"{self._host.name}/{row.name or row.id}"
        run = msgspec.structs.replace(run, id=f"{self._host.name}/{row.id}", name=name)
        return RunView(
            run=run,
            progress=Progress(),
            metrics={},
            summary={},
            trend=(),
            checkpoint=row.checkpoint,
            images=(),
            seconds=run.seconds(time.time() + self._host.clock_offset)
            if row.seconds is None
            else row.seconds,
            money=RunCost(cost=None if row.cost is None else Decimal(str(row.cost))),
        )


def _brief(row: RunRow) -> Run:
    """A run of which nothing but its row is known."""
    record = RunRecord(row.state, row.remark, started=row.started, ended=row.ended)
    return Run(row.id, row.preset, row.name, row.state, row.remark, "", row.created, None, record)
