"""What the run table shows: the rows, which of them in which order, and how each is drawn.

The pane holds keys and painting. Nothing here waits, and only lines that are asked for are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.text import Text
from textual.theme import Theme

from runners.model.late_pattern import late_pattern
from runners.places.remote import RemoteRows, as_of
from runners.places.run_row import RunRow, running_first
from tui.panel.widgets.run_line import MARGIN, NamesNow, draw_header, draw_row
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import live_texts
from tui.views.runs.ended_index import EndedRows
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_columns import (
    NO_RUNS,
    Cell,
    Column,
    TableContext,
    fit_columns,
    headings_agree,
)
from tui.views.runs.run_query import unknown_names
from tui.views.runs.run_sort import can_sort_by
from tui.views.runs.run_table import (
    Arrangement,
    FoldedGroup,
    Line,
    TableChoice,
    group_mark,
    group_row,
)
from tui.views.runs.short_names import last_parts, short_names, values_of

_SAMPLE = 200
"""So many rows tell which columns are worth their room."""
_MARK = "●"
_AROUND = 40
_LEAST_STEM = 4
"""Cells that a sweep's name needs to be known by."""
_TAIL = late_pattern(r"-[0-9a-f]{4}$")
"""What tells a group from others of its name."""
_CHANGING: dict[str, Callable[[RunRow], object]] = {
    "cost": lambda row: row.cost,
    "best": lambda row: row.best_value is not None,
    "validation": lambda row: row.validation is not None,
    "last": lambda row: row.last is not None,
    "trend": lambda row: row.spark,
    "tags": lambda row: row.tags,
    "rate": lambda row: row.rate is not None,
    "epoch": lambda row: row.is_live and row.epoch is not None,
    "gpus": lambda row: row.gpus,
    "reason": lambda row: row.remark,
}
"""Columns that are there only when some run has something to show in them."""


class RunLines(Sequence[Text]):
    """The lines of the table, drawn when they are looked at."""

    def __init__(self) -> None:
        self.snapshot: PanelSnapshot | None = None
        self.choice = TableChoice()
        self.table = Arrangement()
        self.live: dict[str, RunRow] = {}
        """What lives, by id, first what runs; and what ended so lately that the rows of ended runs
        have not got it yet.
        """
        self.marked: dict[str, bool] = {}
        """The ids of the marked runs, in the order of their marking."""
        self.remote = RemoteRows()
        """The runs of other machines."""
        self._joined: tuple[object, EndedRows] = (None, EndedRows())
        self.cells: tuple[Cell, ...] = ()
        self._costs_wanted = False
        self._unknown_ended: tuple[tuple[str, ...], int, bool] = ((), 0, True)
        self._names: dict[tuple[str, int], str] = {}
        self.names = NamesNow()
        self._shown: frozenset[str] = frozenset()
        self._table_context = TableContext(0.0)
        self._theme: Theme | None = None

    @property
    def time(self) -> float:
        """When the snapshot was taken; 0.0 without any."""
        return self.snapshot.time if self.snapshot else 0.0

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot."""
        self.snapshot = snapshot
        names = {view.run.id: view.run.name for view in snapshot.runs}
        self._join_live(
            row_of_view(view, names)
            for view in snapshot.runs
            if view.run.is_live or view.run.id not in snapshot.ended.ids
        )
        _take_costs(snapshot)

    def show_remote(self) -> None:
        """Take in what other machines run; what lives here stays as it was."""
        self._join_live(row for row in self.live.values() if not row.machine)

    def _join_live(self, local: Iterable[RunRow]) -> None:
        live = sorted((*local, *as_of(self.remote.live, self.time)), key=running_first)
        self.live = {row.id: row for row in live}

    @property
    def ended(self) -> EndedRows:
        """The rows of all that ended, on this machine and on others; newest first."""
        ended = self.snapshot.ended if self.snapshot else EndedRows()
        if not self.remote.ended:
            return ended
        versions = ended.version, self.remote.version
        if self._joined[0] != versions:
            rows = sorted((*ended.rows, *self.remote.ended), key=lambda row: -row.created)
            # Both versions in one number; 0 still means that not all was read.
            version = ended.version and ended.version + (versions[1] << 40)
            self._joined = versions, EndedRows(tuple(rows), version, ended.ids)
        return self._joined[1]

    def arrange(self, table: Arrangement) -> None:
        """Show these runs in this order."""
        # Short names depend on their neighbours, so only on the keys and their order.
        if table.keys is not self.table.keys and table.keys != self.table.keys:
            self._names.clear()
        self.table = table

    def choose(self, choice: TableChoice, key: str | None) -> str | None:
        """Take in what a person chose; where the line with `key` is gone by it, its new key."""
        line, folded = self.line_of(key), self.choice.folded
        self.choice = choice
        self._names.clear()
        if isinstance(line, FoldedGroup) and line.group not in choice.folded:
            return line.rows[0].id
        if isinstance(line, RunRow) and line.group in choice.folded - folded:
            return FoldedGroup(line.group, ()).id
        return None

    def rows_at(self, key: str | None) -> tuple[RunRow, ...]:
        """The run of the line with this key, or all runs of its folded group."""
        line = self.line_of(key)
        if isinstance(line, FoldedGroup):
            return line.rows
        return () if line is None else (line,)

    def mark(self, key: str | None) -> bool:
        """Mark the runs of the line with this key; those that are marked, no longer.
        False: there are none.
        """
        rows = self.rows_at(key)
        for row in rows:
            if not self.marked.pop(row.id, False):
                self.marked[row.id] = True
        return bool(rows)

    @property
    def marked_rows(self) -> list[RunRow]:
        """The marked runs that are still there, in the order of their marking."""
        known = {row.id: row for row in self.ended.rows if row.id in self.marked} | self.live
        return [known[run] for run in self.marked if run in known]

    def line_of(self, key: str | None) -> Line | None:
        """The line with this key."""
        try:
            at = self.table.keys.index(key) if key is not None else -1
        except ValueError:
            return None
        # The table is arranged in a thread: what lives has newer rows since.
        return None if at < 0 else self.live.get(key or "") or self.table.lines[at]

    @property
    def in_all(self) -> int:
        """How many runs there are, read or not."""
        local = len(self.snapshot.runs) + self.snapshot.hidden if self.snapshot else 0
        return local + len(self.remote.live) + len(self.remote.ended)

    @property
    def is_whole(self) -> bool:
        """Whether every run is in the table; one that comes or goes meanwhile is forgiven."""
        ended = self.snapshot.ended if self.snapshot else None
        return ended is not None and ended.version > 0 and self.table.total >= self.in_all - 1

    @property
    def sortable(self) -> list[str]:
        """The columns that are there and can be sorted by."""
        return [cell.column.key for cell in self.cells if can_sort_by(cell.column.key)]

    def column_at(self, x: int) -> str:
        """The column whose heading is at cell `x`; empty where there is none to sort by."""
        for cell in self.cells:
            if cell.start <= x - MARGIN < cell.start + cell.width:
                return cell.column.key if can_sort_by(cell.column.key) else ""
        return ""

    def asks_for_costs(self, seen: range) -> bool:
        """Whether costs are wanted, the first time that they are."""
        asks = not self._costs_wanted and self._lacks_costs(seen)
        self._costs_wanted |= asks
        return asks

    def _lacks_costs(self, seen: range) -> bool:
        """Whether costs are shown or asked for, and runs are seen that may have one."""
        choice = self.choice
        if "cost" in choice.query.text or any(key.column == "cost" for key in choice.sort):
            return True
        shows = any(cell.column.key == "cost" for cell in self.cells)
        lines = self.table.lines
        return shows and any(
            isinstance(line, RunRow) and line.cost is None and line.gpus and not line.is_live
            for line in (lines[at] for at in seen if at < len(lines))
        )

    # ---- drawing

    def lay_out(self, width: int, theme: Theme) -> Text:
        """Fit the columns to the width; the header over them."""
        self._theme = theme
        names = self.names.of(self.ended, self.live)
        self._table_context = TableContext(self.time, self.choice.metric, names)
        sample = [*self.live.values(), *map(self._row_of, self.table.lines[:_SAMPLE])]
        # A column that was there stays: with a single run's value it would come and go.
        self._shown |= {key for key, test in _CHANGING.items() if any(map(test, sample))}
        longest = max((len(row.name) + 2 for row in sample), default=8)
        named: tuple[Column, ...] = ()
        if self.choice.columns:
            from tui.views.runs.named_columns import named_columns  # the first paint does without

            named = named_columns(self.choice.columns, sample)
        cells = fit_columns(
            width - MARGIN,
            _CHANGING.keys() - self._shown,
            longest,
            hosts=bool(self.remote.live or self.remote.ended),
            named=named,
            longest_state=max((len(row.state) for row in sample), default=0),
        )
        if cells != self.cells:
            self.cells = cells
            self._names.clear()
        common = headings_agree(sample) if self.choice.metric is None else None
        return draw_header(cells, self._table_context, self.choice.sort, common, width)

    @property
    def nothing(self) -> str:
        """What to say where there is no line."""
        if self.choice.query.text:
            return "no run matches; Esc: all runs"
        problem = self.snapshot.problem if self.snapshot else ""
        return problem or f"{NO_RUNS}: press n to launch one"

    def __len__(self) -> int:
        return len(self.table.keys)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        if isinstance(at, slice):
            return [self._draw(i) for i in range(*at.indices(len(self)))]
        return self._draw(at)

    def _row_of(self, line: Line) -> RunRow:
        if not isinstance(line, FoldedGroup):
            return self.live.get(line.id, line)
        rows = tuple(self.live.get(row.id, row) for row in line.rows)
        return group_row(FoldedGroup(line.group, rows))

    def _draw(self, at: int) -> Text:
        line = self.table.lines[at]
        key, row = self.table.keys[at], self._row_of(line)
        letters = self.snapshot.letters if self.snapshot else {}
        is_together = not self.choice.sort or isinstance(line, FoldedGroup)
        before = group_mark(self.table.lines, at) if is_together else ""
        if row.starred:
            before += "★ "
        elif row.urgent and row.is_live:
            before += "⚠ "
        assert self._theme is not None
        letter = letters.get(key) or self.remote.letters.get(key, "")
        text = draw_row(
            row,
            self.cells,
            self._table_context,
            self._theme,
            letter=letter if row.is_live else "",
            mark=_MARK if key in self.marked else "",
            before_name=before,
            name=lambda name, width: self._short(name, width, at),
        )
        if row.machine in self.remote.unreached:
            text.stylize("dim")
        return text

    def _short(self, name: str, width: int, at: int) -> str:
        if len(name) <= width:
            return name
        if (name, width) not in self._names:
            line, lines = self.table.lines[at], self.table.lines
            near = lines[max(0, at - _AROUND) : at + _AROUND]
            if isinstance(line, FoldedGroup):
                shown = _short_group(line.group, near, width, f" ({len(line.rows)})")
            else:
                is_marked = not self.choice.sort and bool(group_mark(lines, at))
                shown = _short_run(line.group, near, width, name, is_marked)
            self._names[name, width] = shown
        return self._names[name, width]

    # ---- in words

    def title(self, typing: bool) -> str:
        """What is looked for."""
        text, sort = self.choice.query.text, self.choice.sort
        by = ""
        # A heading says it where there is one.
        if sort and sort[0].column not in {cell.column.key for cell in self.cells}:
            by = f" · by {sort[0].column}{'▼' if sort[0].descending else '▲'}"
        if not typing and not text:
            return f"Runs{by}"
        return f"Runs{by} · find: {text}▏" if typing else f"Runs{by} · find: {text}"

    def _unknown_names(self) -> str:
        """Which names of the filter no run has; empty where all are known, or not all is read."""
        query, ended = self.choice.query, self.ended
        if not query.names or not self.is_whole:
            return ""
        rows = tuple(self.live.values())
        # What ended is many, and is asked once for a filter.
        if self._unknown_ended[:2] != (query.names, ended.version):
            is_known = not unknown_names(query, ended.rows)
            self._unknown_ended = query.names, ended.version, is_known
        if self._unknown_ended[2] or not unknown_names(query, rows):
            return ""
        return "; ".join(unknown_names(query, (*rows, *ended.rows)))

    @property
    def problem(self) -> str:
        """What of the filter is not understood, or known to no run; empty where all is."""
        return self.choice.query.problem or self._unknown_names()

    def subtitle(self, width: int) -> str:
        """How many runs that are, to fit `width`; or what of the filter is not understood."""
        snapshot, query = self.snapshot, self.choice.query
        if snapshot is None:
            return ""
        if self.problem:
            return self.problem
        running, queued = live_texts(row.state for row in self.live.values())
        older = self.remote.older
        in_all = self.in_all + older
        parts = [running, f"{in_all:,} in all"]
        if query.text:
            parts = [f"{self.table.runs:,} of {self.table.total:,}", *parts]
            if in_all == self.table.total:
                parts.pop()
        if marked := self.marked and self.marked_rows:
            parts.insert(0, f"{len(marked)} marked")
        if snapshot.ended.version and not self.is_whole:
            parts.append(f"{self.table.total:,} read")
        if older:
            parts.append(f"{older:,} older on other machines: G")
        if queued and len(" · ".join([*parts, queued])) <= width:
            parts.insert(parts.index(running) + 1, queued)
        return " · ".join(parts)


def _short_run(group: str, near: Sequence[Line], width: int, name: str, is_marked: bool) -> str:
    """A run's name in `width` cells: among those of its sweep by what differs in it."""
    rows = [row for row in near if isinstance(row, RunRow)]
    members = [*(row.name for row in rows if row.group == group), name] if group else []
    # Among others that stand in an order of their own a run needs the name of its sweep, too.
    if is_marked or len(members) > len(near):
        return last_parts(members, width)[name]
    value = values_of(sorted({*members})).get(name, "")
    if value and len(value) + _LEAST_STEM < width:
        return _short_group(group, near, width, f" {value}")
    if value and len(value) < width:
        return f"…{value}"
    return short_names([*(row.name for row in rows), name], width)[name]


def _short_group(group: str, near: Sequence[Line], width: int, behind: str) -> str:
    """A group's name in `width` cells with what stands behind it, which is never cut."""
    groups = {line.group for line in near if line.group} | {group}
    names = {each: _TAIL.sub("", each) for each in groups}
    if list(names.values()).count(names[group]) > 1:
        names = {each: each for each in groups}
    return short_names(names.values(), width - len(behind))[names[group]] + behind


def _take_costs(snapshot: PanelSnapshot) -> None:
    """The rows of the newest ended runs show the money that was looked up for these."""
    costs = {view.run.id: view.money.cost for view in snapshot.runs if not view.run.is_live}
    for row in snapshot.ended.rows[: len(costs) + _SAMPLE]:
        cost = costs.get(row.id)
        if cost is not None:
            row.cost = float(cost)
