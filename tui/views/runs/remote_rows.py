"""Runs of rented machines as rows of the run table, beside those of this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from runners.model.states import State
from tui.views.metrics.sparkline import sparkline
from tui.views.runs.run_row import SPARKS, RunRow

if TYPE_CHECKING:
    from runners.places.ssh.snapshot import RemoteRun


class RowsElsewhere(NamedTuple):
    """Rows of other machines, newest first; `version` tells one such set of ended rows from
    another. Of the machines `unreached` they show what was seen last.
    """

    live: tuple[RunRow, ...] = ()
    ended: tuple[RunRow, ...] = ()
    version: int = 0
    unreached: frozenset[str] = frozenset()
    letters: Mapping[str, str] = MappingProxyType({})
    older: int = 0
    """How many more ended, which the machines that are reached have not told of."""


def row_of_remote(machine: str, run: RemoteRun, clock_offset: float) -> RunRow:
    """The row of a run on `machine`, its moments (unix seconds) by the clock of here."""
    try:
        state = State(run.state)
    except ValueError:  # one that a newer version has
        state = State.RUNNING if run.live else State.LOST
    started, ended = _here(run.started, clock_offset), _here(run.ended, clock_offset)
    return RunRow(
        id=f"{machine}/{run.id}",
        stamp=0,
        name=run.name or run.id,
        preset=run.preset,
        group=f"{machine}/{run.group}" if run.group else "",
        state=state,
        remark=run.remark or run.reason,
        host=machine,
        user="",
        created=run.created - clock_offset,
        started=started,
        ended=ended,
        seconds=None if started is None or ended is None else max(0.0, ended - started),
        exit_code=run.exit_code,
        gpus=run.gpus,
        fraction=run.fraction,
        step=None,
        steps=None,
        epoch=run.epoch,
        epochs=run.epochs,
        headline=run.headline,
        last=run.value,
        best=run.best,
        spark=sparkline(run.trend, SPARKS),
        tags=run.tags,
        note=run.note,
        starred=run.starred,
        is_live=run.live,
        urgent=run.urgent,
        cost=None if run.cost is None else float(run.cost),
        eta_s=run.eta_s,
        phase=run.phase,
    )


def as_of(rows: Iterable[RunRow], now: float) -> list[RunRow]:
    """Live rows with the seconds (s) that they have run by `now` (unix seconds)."""
    return [
        row
        if row.started is None
        else msgspec.structs.replace(row, seconds=max(0.0, now - row.started))
        for row in rows
    ]


def _here(moment: float | None, clock_offset: float) -> float | None:
    return None if moment is None else moment - clock_offset
