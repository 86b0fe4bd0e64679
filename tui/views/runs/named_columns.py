"""Columns that somebody asks for: metrics and settings by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

from runners.places.run_row import RunRow
from tui.views.format import first_line
from tui.views.runs.run_columns import Column, TableContext, number_in
from tui.views.runs.run_settings import as_number
from tui.views.runs.run_sort import NAMED, SETTING

_WIDEST = 16


@lru_cache(256)
def named_column(key: str, width: int = 0, right: bool = False) -> Column | None:
    """The column of a metric or setting: `set:lr`, `best:loss`; None for anything else."""
    kind, _, name = key.partition(":")
    if not name or not key.startswith(NAMED):
        return None
    if key.startswith(SETTING):
        return Column(key, name, partial(_setting, name), width, right=right)
    place = 1 if kind == "best" else 0
    return Column(key, name if kind == "last" else key, partial(_metric, name, place), width)


def _setting(name: str, row: RunRow, context: TableContext, width: int) -> str:
    return first_line(row.settings.get(name, ""))


def _metric(name: str, place: int, row: RunRow, context: TableContext, width: int) -> str:
    return number_in(row.metric(name)[place], width)


def named_columns(keys: Iterable[str], rows: Sequence[RunRow]) -> tuple[Column, ...]:
    """The columns of these metrics and settings, as wide as their names and the rows' values."""
    found = []
    for key in keys:
        if (column := named_column(key)) is None:
            continue
        values = list(filter(None, (column.text(row, TableContext(0.0), _WIDEST) for row in rows)))
        # The arrow of the order stands behind the name.
        width = max(len(column.heading) + 1, *map(len, values), 0)
        right = all(as_number(value) is not None for value in values)
        found.append(named_column(key, min(width, _WIDEST), right))
    return tuple(column for column in found if column is not None)
