"""The run pane: every run as a line of a table, what lives first, with a cursor.

What is shown, in which order, is worked out aside where there are thousands; only the lines that
are seen are drawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message

from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.panel.feed import PanelSnapshot
from tui.panel.hotkeys import hotkey
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.run_line import MARGIN, draw_header, draw_row
from tui.views.run_columns import Cell, Look, fit_columns, headings_agree, short_names
from tui.views.run_query import RunQuery, parse_query
from tui.views.run_row import RunRow, row_of_view
from tui.views.run_sort import SORTABLE, SortKey
from tui.views.run_table import (
    Arrangement,
    Arranger,
    FoldedGroup,
    Line,
    TableChoice,
    group_mark,
    group_row,
)
from tui.views.run_view import RunView, view_run

_FEW = 500
"""So many runs are arranged at once; more of them aside."""
_SAMPLE = 200
_MARK = "●"


class RunPane(RowList):
    """All runs, sorted and filtered as a person likes. Announces which one the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("enter,i", "open", "everything about the run; a folded group unfolds"),
        hotkey("slash", "filter", "find runs: words, state:failed tag:good loss<0.1 since:7d"),
        hotkey("greater_than_sign", "sort(1)", "sort by the next column, the one before"),
        hotkey("less_than_sign", "sort(-1)", "sort by the next column, the one before"),
        hotkey("o", "turn", "the other way round"),
        hotkey("b", "metric(1)", "last and best of another metric"),
        hotkey("B", "metric(-1)", "last and best of another metric"),
        hotkey("space", "mark", "mark the run, for stop, metrics and delete; or no longer"),
        hotkey("f", "fold", "fold the group, or unfold it; F: all of them"),
        hotkey("F", "fold_all", "fold the group, or unfold it; F: all of them"),
        hotkey("y", "screen.copy_command", "copy the run's command"),
        hotkey("escape", "clear", "no filter, no marks, newest first"),
        Binding("a", "screen.again", "Again"),
        Binding("m", "screen.metrics", "Metrics"),
    ]

    class Selected(Message):
        """The cursor moved to another run, or the first run appeared."""

        def __init__(self, row: RunRow) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """Enter was pressed on a run."""

    def __init__(self, state: StateDirectory, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._state = state
        self.picture: PanelSnapshot | None = None
        self.marked: dict[str, RunRow] = {}
        """The marked runs, by id, in the order of their marking."""
        self._choice = TableChoice()
        self._arranger = Arranger()
        self._table = Arrangement()
        self._live: dict[str, RunRow] = {}
        self._cells: tuple[Cell, ...] = ()
        self._names: dict[tuple[str, int], str] = {}
        self._shown: frozenset[str] = frozenset()
        self._look = Look(0.0)
        self._typing = False
        self._came_from: str | None = None
        self._asked: tuple[Any, ...] | None = None
        self._busy = False
        self._wanted: str | None = None

    # ---- which run

    @property
    def selected_row(self) -> RunRow | None:
        """The run under the cursor; of a folded group, its first."""
        line = self._line_of(self.key)
        return line.rows[0] if isinstance(line, FoldedGroup) else line

    @property
    def selected(self) -> RunView | None:
        """The run under the cursor, in full: read anew when it ended long ago."""
        row = self.selected_row
        return None if row is None else self.view_of(row.id)

    @property
    def chosen(self) -> list[RunRow]:
        """The runs that an action is for: those marked, else the folded group's, else the one
        under the cursor.
        """
        if self.marked:
            return [self._live.get(one, row) for one, row in self.marked.items()]
        line = self._line_of(self.key)
        if line is None:
            return []
        return list(line.rows) if isinstance(line, FoldedGroup) else [line]

    def view_of(self, run_id: str) -> RunView | None:
        """A run in full; None when it is gone."""
        if self.picture is None:
            return None
        found = next((view for view in self.picture.runs if view.run.id == run_id), None)
        if found is not None:
            return found
        if not self._state.run(run_id).path.is_dir():
            return None
        return view_run(read_run(self._state, run_id))

    def _line_of(self, key: str | None) -> Line | None:
        if key is None:
            return None
        live = self._live.get(key)
        if live is not None and key in self._table.keys:
            return live
        try:
            return self._table.lines[self._table.keys.index(key)]
        except ValueError:
            return None

    # ---- taking in and arranging

    def show(self, picture: PanelSnapshot, select: str | None = None) -> None:
        """Take in a new picture; the cursor stays on its run, or goes to the one to `select`."""
        self.picture = picture
        self._wanted = select or self._wanted
        # What ended so lately that the rows of ended runs have not got it yet stands here too.
        live = [
            row_of_view(view, picture.time)
            for view in picture.runs
            if view.run.is_live or view.run.id not in picture.ended.ids
        ]
        live.sort(key=_live_first)
        self._live = {row.id: row for row in live}
        _take_costs(picture)
        self._arrange()

    def _arrange(self) -> None:
        picture = self.picture
        if picture is None:
            return
        live, ended = list(self._live.values()), picture.ended
        asked = (live, ended.rows, ended.version, self._choice)
        ready = len(ended.rows) < _FEW or self._arranger.is_ready(ended.version, live, self._choice)
        if self._busy or not ready:
            self._asked = asked
            if not self._busy:
                self._busy = True
                self.run_worker(self._arrange_aside(), group="arrange")
        else:
            self._take(self._arranger.arrange(*asked))

    async def _arrange_aside(self) -> None:
        try:
            while self._asked is not None:
                asked, self._asked = self._asked, None
                table = await asyncio.to_thread(self._arranger.arrange, *asked)
                if self._asked is None:
                    self._take(table)
        finally:
            self._busy = False

    def _take(self, table: Arrangement) -> None:
        if table.keys is not self._table.keys and table.keys != self._table.keys:
            self._names.clear()
        self._table = table
        self._lay_out()
        keys = table.keys
        wanted = self._wanted
        if wanted is not None and wanted in keys:
            self._wanted = None
            self.select(wanted)
        elif keys and self.key not in keys:
            back = self._came_from if self._came_from in keys else None
            self.select(back or keys[0])
        self._say()

    def _lay_out(self) -> None:
        picture = self.picture
        if picture is None:
            return
        table, width = self._table, self.scrollable_content_region.width or self.size.width
        self._look = Look(picture.time, self._choice.metric)
        sample = [*self._live.values(), *self._rows_of(table.lines[:_SAMPLE])]
        self._shown |= _present(sample)
        longest = max((len(row.name) + 2 for row in sample), default=8)
        cells = fit_columns(width - MARGIN, _CHANGING - self._shown, longest)
        if cells != self._cells:
            self._cells = cells
            self._names.clear()
        common = headings_agree(sample) if self._choice.metric is None else None
        header = draw_header(cells, self._look, self._choice.sort, common, width)
        if not table.keys:
            words = "no run matches; Esc: all runs" if self._choice.query.text else _NO_RUNS
            self.set_rows((), (), [Text(words, style="dim")])
            return
        self.set_rows(table.keys, _Drawn(len(table.keys), self._draw), (), header)

    def _rows_of(self, lines: Sequence[Line]) -> list[RunRow]:
        return [
            group_row(line, self._look.now) if isinstance(line, FoldedGroup) else line
            for line in lines
        ]

    def _draw(self, at: int) -> Text:
        key, line = self._table.keys[at], self._table.lines[at]
        if isinstance(line, FoldedGroup):
            live = FoldedGroup(line.group, tuple(self._live.get(row.id, row) for row in line.rows))
            row = group_row(live, self._look.now)
        else:
            row = self._live.get(key, line)
        letters = self.picture.letters if self.picture else {}
        before = group_mark(self._table.lines, at) if not self._choice.sort else ""
        before += "★ " if row.starred else "⚠ " if row.urgent and row.is_live else ""
        return draw_row(
            row,
            self._cells,
            self._look,
            self.app.current_theme,
            letter=letters.get(key, "") if row.is_live else "",
            mark=_MARK if key in self.marked else "",
            before_name=before,
            name=lambda name, width: self._short(name, width, at),
        )

    def _short(self, name: str, width: int, at: int) -> str:
        if len(name) <= width:
            return name
        if (name, width) not in self._names:
            around = self._table.lines[max(0, at - 40) : at + 40]
            names = [line.group if isinstance(line, FoldedGroup) else line.name for line in around]
            self._names[name, width] = short_names([*names, name], width)[name]
        return self._names[name, width]

    def _say(self) -> None:
        """What is chosen, and how many runs that are, in the border."""
        picture, choice, table = self.picture, self._choice, self._table
        if picture is None:
            return
        title = "Runs"
        if self._typing or choice.query.text:
            title += f" · find: {choice.query.text}{'▏' if self._typing else ''}"
        if title != self.border_title:
            self.border_title = title
        live = sum(row.is_live for row in self._live.values())
        total = len(picture.runs) + picture.hidden
        words = [f"{live} live", f"{total:,} in all"]
        if choice.query.text:
            words.insert(0, f"{table.runs:,} of {table.total:,}")
        if self.marked:
            words.insert(0, f"{len(self.marked)} marked")
        if picture.ended.version and table.total < total - 1:
            words.append(f"{table.total:,} read")
        if choice.query.problem:
            words = [choice.query.problem]
        subtitle = " · ".join(words)
        if subtitle != self.border_subtitle:
            self.border_subtitle = subtitle

    # ---- the cursor

    def select(self, run_id: str) -> None:
        """Put the cursor on a run."""
        if self.put_cursor(run_id):
            self.moved()

    def moved(self) -> None:
        """Say which run it is."""
        row = self.selected_row
        if row is not None:
            self.post_message(self.Selected(row))

    def action_open(self) -> None:
        """Everything about the run under the cursor; a folded group unfolds."""
        if isinstance(self._line_of(self.key), FoldedGroup):
            self.action_fold()
        elif self.key is not None:
            self.post_message(self.Opened())

    def on_resize(self) -> None:
        """Lay the columns out anew."""
        self._lay_out()

    # ---- filter

    @property
    def is_typing(self) -> bool:
        """Whether keys go into the filter."""
        return self._typing

    def action_filter(self) -> None:
        """Type what to find."""
        self._typing = True
        self._came_from = self._came_from or self.key
        self._say()
        self.refresh_bindings()

    def on_key(self, event: events.Key) -> None:
        """While one types, what is typed goes into the filter, and the table follows."""
        if not self._typing:
            return
        text = self._choice.query.text
        if event.key == "enter":
            self._end_typing()
        elif event.key == "escape":
            self._end_typing()
            self._find("")
        elif event.key in ("backspace", "ctrl+h"):
            self._find(text[:-1])
        elif event.key == "ctrl+w":
            self._find(text.rstrip().rpartition(" ")[0])
        elif event.key == "ctrl+u":
            self._find("")
        elif event.is_printable and event.character:
            self._find(text + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted is typed."""
        if self._typing:
            self._find(self._choice.query.text + " ".join(event.text.split()))
            event.stop()

    def on_blur(self) -> None:
        """Who goes elsewhere has typed enough."""
        super().on_blur()
        if self._typing:
            self._end_typing()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Which keys the filter takes while one types."""
        return self._typing and character is not None and character.isprintable()

    def _end_typing(self) -> None:
        self._typing = False
        now = self.picture.time if self.picture else 0.0
        query = parse_query(self._choice.query.text.strip(), now)
        self._choice = self._choice._replace(query=query)
        self._arrange()
        self._say()
        self.refresh_bindings()

    def _find(self, text: str) -> None:
        now = self.picture.time if self.picture else 0.0
        query = parse_query(text, now, typing=True) if text else RunQuery("")
        self._choose(query=query)
        if not text and not self._typing:
            back, self._came_from = self._came_from, None
            if back is not None:
                self._wanted = back

    def action_clear(self) -> None:
        """Esc: the filter goes, then the marks, then the order; with none of them it is the
        screen's.
        """
        if self._choice.query.text:
            self._find("")
        elif self.marked:
            self.marked.clear()
            self._lay_out()
            self._say()
        elif self._choice.sort:
            self._choose(sort=())
        else:
            raise SkipAction

    # ---- order, metric, marks, groups

    def action_sort(self, by: int) -> None:
        """Sort by the next column, or the one before; past the last: newest first again."""
        columns = [cell.column.key for cell in self._cells if cell.column.key in SORTABLE]
        at = columns.index(self._choice.sort[0].column) if self._sorted_in(columns) else -1
        at = (at + 1 + by) % (len(columns) + 1) - 1
        self._choose(sort=(SortKey(columns[at]),) if at >= 0 else ())

    def _sorted_in(self, columns: list[str]) -> bool:
        return bool(self._choice.sort) and self._choice.sort[0].column in columns

    def action_turn(self) -> None:
        """Sort the other way round."""
        if self._choice.sort:
            first, *others = self._choice.sort
            self._choose(sort=(first._replace(turned=not first.turned), *others))

    def sort_by(self, column: str) -> None:
        """Sort by a column; again: the other way round."""
        if self._choice.sort and self._choice.sort[0].column == column:
            self.action_turn()
        else:
            self._choose(sort=(SortKey(column),))

    def header_clicked(self, x: int) -> None:
        """Sort by the column whose heading was clicked."""
        for cell in self._cells:
            inside = cell.start <= x - MARGIN < cell.start + cell.width
            if inside and cell.column.key in SORTABLE:
                self.sort_by(cell.column.key)

    def action_metric(self, by: int) -> None:
        """`last` and `best` are those of another metric of the run under the cursor."""
        row = self.selected_row
        names = sorted(row.metrics) if row is not None else []
        if not names:
            return
        at = names.index(self._choice.metric) if self._choice.metric in names else -1
        at = (at + 1 + by) % (len(names) + 1) - 1
        self._choose(metric=names[at] if at >= 0 else None)

    def action_mark(self) -> None:
        """Mark the run under the cursor, or no longer; go on to the next."""
        line = self._line_of(self.key)
        rows = line.rows if isinstance(line, FoldedGroup) else (line,) if line else ()
        for row in rows:
            if self.marked.pop(row.id, None) is None:
                self.marked[row.id] = row
        self._lay_out()
        self._say()
        self.action_move(1)

    def forget_marks(self) -> None:
        """No run is marked any longer."""
        self.marked.clear()
        self._lay_out()
        self._say()

    def action_fold(self) -> None:
        """Fold the group under the cursor into one line, or unfold it."""
        line = self._line_of(self.key)
        if isinstance(line, FoldedGroup):
            self._wanted = line.rows[0].id
            self._choose(folded=self._choice.folded - {line.group})
        elif line is not None and line.group:
            self._wanted = FoldedGroup(line.group, ()).id
            self._choose(folded=self._choice.folded | {line.group})

    def action_fold_all(self) -> None:
        """Fold every group, or unfold them all."""
        if self.picture is None:
            return
        groups = {row.group for row in self._live.values() if row.group}
        groups |= {row.group for row in self.picture.ended.rows if row.group}
        self._choose(folded=frozenset() if self._choice.folded else frozenset(groups))

    def _choose(self, **changes: Any) -> None:
        self._choice = self._choice._replace(**changes)
        self._names.clear()
        self._arrange()
        self._say()


_CHANGING = frozenset({"cost", "best", "last", "trend", "tags", "rate", "epoch", "gpus", "reason"})
"""Columns that are there only when some run has something to show in them."""
_NO_RUNS = "no runs yet: press n to launch one"


def _present(rows: Sequence[RunRow]) -> frozenset[str]:
    """Which of these columns some row has something for."""
    tests: dict[str, Callable[[RunRow], object]] = {
        "cost": lambda row: row.cost,
        "best": lambda row: row.best is not None,
        "last": lambda row: row.last is not None,
        "trend": lambda row: row.spark,
        "tags": lambda row: row.tags,
        "rate": lambda row: row.rate is not None,
        "epoch": lambda row: row.is_live and row.epoch is not None,
        "gpus": lambda row: row.gpus,
        "reason": lambda row: row.remark,
    }
    return frozenset(key for key, test in tests.items() if any(map(test, rows)))


def _live_first(row: RunRow) -> tuple[bool, bool, float]:
    return not row.is_live, row.state is State.QUEUED, -row.created


def _take_costs(picture: PanelSnapshot) -> None:
    """The rows of the newest ended runs show the money that was looked up for these."""
    costs = {view.run.id: view.money.cost for view in picture.runs if not view.run.is_live}
    for row in picture.ended.rows[: len(costs) + _SAMPLE]:
        cost = costs.get(row.id)
        if cost is not None:
            row.cost = float(cost)


class _Drawn(Sequence[Text]):
    """Lines that are drawn when they are looked at."""

    def __init__(self, count: int, draw: Callable[[int], Text]) -> None:
        self._count, self._draw = count, draw

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        return (
            [self._draw(i) for i in range(*at.indices(self._count))]
            if isinstance(at, slice)
            else self._draw(at)
        )
