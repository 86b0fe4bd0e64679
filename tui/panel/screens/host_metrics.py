"""The metrics page for runs of another machine, beside those of this one."""

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
from runners.state.layout import StateDirectory
from tui.panel.screens.metrics import MetricsScreen
from tui.panel.widgets.metrics.chart_model import ChartModel
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.remote_curves import RemoteCurveStore
from tui.views.runs.run_view import RunView


class HostMetricsScreen(MetricsScreen):
    """The same page; the curves come over the machine's link while it is open."""

    def __init__(
        self,
        state: StateDirectory,
        snapshot: PanelSnapshot | None,
        host: LinkedHost,
        letters: Callable[[], Mapping[str, str]],
        runs: Sequence[RunRow],
    ) -> None:
        """`runs` are drawn at first; `letters` tells those of live runs of all other machines."""
        self._host = host
        self._remote_letters = letters
        self._store = RemoteCurveStore(host, self._curves_came)
        marked = [self._view(run) for run in runs]
        super().__init__(state, self._with_remote(snapshot) if snapshot else None, marked)
        self._book = ChartModel(self._store)

    def on_unmount(self) -> None:
        """Nothing more is to come."""
        super().on_unmount()
        self._store.close()

    def show(self, snapshot: PanelSnapshot) -> None:
        """What this machine and the other have now."""
        super().show(self._with_remote(snapshot))
        self._show_line()

    def _curves_came(self) -> None:
        """In the link's thread: have them drawn in the page's own."""
        app = self.app
        if app.is_running:
            app.call_later(self._draw_again)

    def _draw_again(self) -> None:
        if self.is_mounted:
            self._changed.set()

    def _with_remote(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        told = self._host.snapshot
        remote = [self._view(run) for run in told.newest_first] if told is not None else []
        letters = {**snapshot.letters, **self._remote_letters()}
        return msgspec.structs.replace(snapshot, runs=(*remote, *snapshot.runs), letters=letters)

    def _view(self, row: RunRow) -> RunView:
        """A run of the machine as this page shows it; its plan is known once its curves came."""
        curves = self._store.followed(f"{self._host.name}/{row.id}")
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
            seconds=run.seconds(time.time() + self._host.clock_offset),
            money=RunCost(cost=None if row.cost is None else Decimal(str(row.cost))),
        )

    # ---- what else is said here

    @property
    def _drawn(self) -> list[str]:
        """What there is to say of the machine's runs that are drawn."""
        followed = [self._store.followed(mark.run.id) for mark in self._asked.marks]
        told = {one.problem for one in followed if one is not None and one.problem}
        if any(one is not None and not one.has_come for one in followed) and not told:
            told = {f"asking {self._host.name}…"}
        return sorted(told)

    def _besides(self) -> str:
        """How the machine is reached, where it is not, and what is still to come."""
        down = [] if self._host.is_reached else [link_text(self._host.status)]
        return "".join(f" · {self._host.name}: {words}" for words in down) or "".join(
            f" · {words}" for words in self._drawn
        )


def _brief(row: RunRow) -> Run:
    """A run of which nothing but its row is known."""
    record = RunRecord(row.state, row.remark, started=row.started, ended=row.ended)
    return Run(row.id, row.preset, row.name, row.state, row.remark, "", row.created, None, record)
