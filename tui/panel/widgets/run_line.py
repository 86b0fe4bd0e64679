"""One line of the run table, and its header, as text with styles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.text import Text
from textual.theme import Theme

from runners.model.run_ids import by_names
from runners.model.states import State
from runners.places.run_row import RunRow
from tui.panel.theme.palette import run_colour
from tui.views.format import fitted
from tui.views.runs.ended_index import EndedRows
from tui.views.runs.run_columns import Cell, TableContext, heading_of, remark_span
from tui.views.runs.run_sort import SortKey

MARGIN = 4
"""Cells before the first column: a letter or mark, and the state's sign."""


def draw_header(
    cells: Sequence[Cell],
    context: TableContext,
    sort: Sequence[SortKey],
    common: str | None,
    width: int,
) -> Text:
    """The headings over their columns."""
    text = Text(" " * MARGIN, no_wrap=True)
    for cell in cells:
        sorted_by = any(key.column == cell.column.key for key in sort)
        text.append(heading_of(cell, context, sort, common), style="bold" if sorted_by else "dim")
        text.append(" ")
    text.truncate(width)
    return text


def draw_row(
    row: RunRow,
    cells: Sequence[Cell],
    context: TableContext,
    theme: Theme,
    *,
    letter: str,
    mark: str,
    before_name: str,
    name: Callable[[str, int], str],
) -> Text:
    """One run: its letter or `mark`, the sign of its state, and the columns there is room for.

    `name` shortens a name to so many cells; `before_name` stands before it.
    """
    style = row.state.style
    first = mark or letter[:2]
    text = Text(no_wrap=True)
    text.append(f"{first:<2}", style=f"{run_colour(letter, theme)} bold" if letter else "bold")
    text.append(f"{row.state.sign} ", style=style)
    start, end = remark_span(row, cells, context.names)
    for cell in cells:
        key, width = cell.column.key, cell.width
        if cell.start == start and end > start:
            remark = by_names(row.remark, context.names)
            text.append(fitted(remark, end - start) + " ", style=remark_style(row))
        if start <= cell.start < end:
            continue
        if key == "name":
            value = fitted(before_name + name(row.name, width - len(before_name)), width)
            text.append(value + " ")
            continue
        value = cell.column.text(row, context, width)
        cell_style = remark_style(row) if key == "reason" else ""
        if key == "state":
            cell_style = style
        text.append(fitted(value, width, cell.column.right) + " ", style=cell_style)
    text.right_crop(1)
    return text


def cut_reason(row: RunRow, cells: Sequence[Cell], names: Mapping[str, str] | None = None) -> Text:
    """A row's whole reason where these columns have no room for it; empty where they do."""
    text = by_names(row.remark, names)
    start, end = remark_span(row, cells, names)
    own = next((cell.width for cell in cells if cell.column.key == "reason"), 0)
    room = end - start if end > start else own
    # Nothing is the same nothing in every state: another one has the screen laid out anew.
    return Text(text, style=remark_style(row)) if len(text) > room else Text()


def remark_style(row: RunRow) -> str:
    """How a reason looks: as its state, yellow where somebody is to look."""
    asks = row.urgent and (row.is_live or row.state is State.DONE)
    return "yellow bold" if asks else row.state.style


class NamesNow:
    """How runs are called now, for the reasons of ended runs that name another."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._of_ended: tuple[int, dict[str, str]] = (-1, {})

    def of(self, ended: EndedRows, live: Mapping[str, RunRow]) -> Mapping[str, str]:
        """By id; nothing where no reason of these `ended` runs names another."""
        version, called = self._of_ended
        if version != ended.version:
            names = any(
                "-" in row.remark and by_names(row.remark) != row.remark for row in ended.rows
            )
            called = {row.id: row.name for row in ended.rows} if names else {}
            self._of_ended = ended.version, called
        self.known = {**called, **{row.id: row.name for row in live.values()}} if called else {}
        return self.known
