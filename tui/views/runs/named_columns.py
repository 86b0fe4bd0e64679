"""Columns that somebody asks for: metrics and settings by their names, and what only text has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial

from runners.places.run_row import RunRow
from tui.views.format import DASH, first_line
from tui.views.runs.run_columns import COLUMNS, Column, TableContext, number_in
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


def table_text(row: RunRow, key: str, context: TableContext) -> str:
    """A row's text in one column of a table that cuts nothing off; a dash where it is unknown."""
    if key in EXTRA:
        return EXTRA[key](row) or DASH
    if (column := named_column(key)) is not None:
        return column.text(row, context, 400) or DASH
    if key == "state":
        return f"{row.state.sign} {row.state}"
    if key == "reason":
        return row.remark
    if key in ("last", "best", "validation", "tags"):
        text = COLUMNS[key].text(row, context, 400)
        return text or ("" if key == "tags" else DASH)
    return COLUMNS[key].text(row, context, 6) or DASH


EXTRA: dict[str, Callable[[RunRow], str]] = {
    "run": lambda row: row.id,
    "preset": lambda row: row.preset,
    "group": lambda row: row.group,
    "host": lambda row: row.host,
    "user": lambda row: row.user,
    "note": lambda row: first_line(row.note),
    "star": lambda row: "★" if row.starred else "",
    "exit": lambda row: "" if row.exit_code is None else str(row.exit_code),
}
"""Columns that only a table in text has, on demand."""
