"""What the metrics page draws from: the runs of this machine, and those of another beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import msgspec

from runners.cost.run_costs import RunCost
from runners.model.run import Progress, Run, RunRecord
from runners.places.run_row import RunRow
from runners.places.ssh.connection import RefusedThere, refuse
from runners.places.ssh.curve_updates import CurveReader
from runners.places.ssh.frames import CurvesFrame, decoded
from runners.places.ssh.link import link_text
from runners.places.ssh.machine import LinkedHost
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.snapshot_updates import LAYOUT
from tui.snapshot.curve_store import CurveStore, Line
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_view import RunView


class FollowedCurves:
    """A subscription to the curves of one run; `changed` is called in the link's thread."""

    def __init__(self, run: str, changed: Callable[[], None]) -> None:
        self.settings: dict[str, object] = {}
        self.notes: list[str] = []
        self.problem = ""
        self.has_come = False
        self.is_over = False
        self._run = run
        self._changed = changed
        self._reader = CurveReader()

    def request(self) -> dict[str, object]:
        """What to ask for, after every break too: everything, and then what is added."""
        return {"do": "curves", "run": self._run, "layout": LAYOUT}

    def take(self, frame: LinkMessage) -> int:
        """Take in what is new."""
        try:
            refuse(frame)
            self._take(decoded(frame.fields, CurvesFrame), frame.payload)
        except RefusedThere as error:
            self.problem = str(error)
        except ValueError as error:
            self.problem = f"curves that cannot be parsed: {error}"
            self._changed()
            raise
        self._changed()
        return len(frame.payload)

    def _take(self, news: CurvesFrame, data: bytes) -> None:
        self._reader.take(news, data)
        self.problem, self.has_come = "", True
        if news.settings is not None:
            self.settings = news.settings
        if news.notes is not None:
            self.notes = news.notes
        self.is_over = self.is_over or news.ended

    @property
    def line(self) -> Line:
        """The run with its series, behind those it was resumed from."""
        return self._reader.line


class RemoteCurveStore(CurveStore):
    """What is known of the runs of one other machine that are drawn, and of this one's."""

    def __init__(self, host: LinkedHost, changed: Callable[[], None]) -> None:
        super().__init__()
        self._host = host
        self._changed = changed
        self._followed: dict[str, tuple[int, FollowedCurves]] = {}

    def read(self, runs: Sequence[Run]) -> bool:
        """Follow those of the machine, no others; read on in those of this one."""
        prefix = f"{self._host.name}/"
        remote = {run.id: run.id.removeprefix(prefix) for run in runs if run.id.startswith(prefix)}
        for run_id in self._followed.keys() - remote.keys():
            self._host.link.cancel(self._followed.pop(run_id)[0])
        for run_id in remote.keys() - self._followed.keys():
            curves = FollowedCurves(remote[run_id], self._changed)
            self._followed[run_id] = self._host.link.subscribe(curves), curves
        return super().read([run for run in runs if run.id not in remote])

    def close(self) -> None:
        """Follow none any longer."""
        for number, _ in self._followed.values():
            self._host.link.cancel(number)
        self._followed = {}

    def followed(self, run_id: str) -> FollowedCurves | None:
        """What came of a run of the machine; None of one that is not drawn."""
        return self._followed[run_id][1] if run_id in self._followed else None

    def line(self, run: Run, joined: bool = True) -> Line:
        """The run with its series, behind those it was resumed from; empty before it has come."""
        curves = self.followed(run.id)
        if curves is None:
            return super().line(run, joined)
        line = curves.line
        # The page knows the run by another name than the machine does.
        last = [
            (msgspec.structs.replace(remote, id=run.id), series) for remote, series in line[-1:]
        ]
        return [*line[:-1], *last] if joined else last

    def notes(self, run_id: str) -> list[str]:
        """What has to be known of a run's values."""
        curves = self.followed(run_id)
        return super().notes(run_id) if curves is None else curves.notes

    def settings(self, run_id: str) -> dict[str, object]:
        """What a run told of its settings."""
        curves = self.followed(run_id)
        return super().settings(run_id) if curves is None else curves.settings


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
