"""The run pane: every run as a line of a table, what lives first, with a cursor.

Which runs, and in which order, is worked out aside where there are thousands of them.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message

from runners.places.run_row import RunRow
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.panel.hotkeys import hotkey
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.run_lines import RunLines
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_query import RunQuery, parse_query
from tui.views.runs.run_sort import SortKey
from tui.views.runs.run_table import Arrangement, Arranger, FoldedGroup, Line
from tui.views.runs.run_view import RunView, view_run

_FEW = 500
"""So many runs are arranged at once; more of them aside."""
_NEAR_THE_END = 3
_LEADING_AWAY = frozenset({"1", "3", "l", "tab", "shift+tab"})


class RunPane(RowList):
    """All runs, sorted and filtered as a person likes. Announces which one the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("enter,i", "open", "everything about the run; a folded group unfolds"),
        hotkey("slash", "filter", "find runs: words, state:failed tag:good host:a loss<0.1"),
        hotkey("greater_than_sign", "sort(1)", "sort by the next column, the one before"),
        hotkey("less_than_sign", "sort(-1)", "sort by the next column, the one before"),
        hotkey("o", "turn", "sort the other way round"),
        hotkey("b", "metric(1)", "last and best of another metric"),
        hotkey("B", "metric(-1)", "last and best of another metric"),
        hotkey("space", "mark", "mark the run for stop, metrics and delete; or no longer"),
        hotkey("f", "fold", "fold the group into one line, or unfold it; F: all groups"),
        hotkey("F", "fold_all", "fold the group into one line, or unfold it; F: all groups"),
        hotkey("y", "screen.page('copy_command')", "copy the run's command"),
        hotkey("R", "screen.runs('rename')", "another name for the run"),
        hotkey("t", "screen.runs('tag')", "tags"),
        hotkey("N", "screen.runs('note')", "a note on the run"),
        hotkey("asterisk", "screen.runs('star')", "star, or no longer", display="*"),
        hotkey("x,delete", "screen.runs('delete')", "delete ended runs; u: bring them back"),
        hotkey("u", "screen.runs('undo')", "delete ended runs; u: bring them back"),
        hotkey("plus", "screen.runs('sooner')", "a queued run sooner, or later", display="+"),
        hotkey("minus", "screen.runs('later')", "a queued run sooner, or later", display="-"),
        hotkey("S", "screen.runs('stop_group')", "stop all runs of its group"),
        hotkey("K", "screen.runs('kill')", "kill now: SIGKILL, nothing is saved"),
        hotkey("escape", "clear", "all runs again, then no marks, then newest first"),
        hotkey("w", "screen.page('fetch')", "bring the results of a rented machine's run here"),
        Binding("a", "screen.launch('again')", "Again"),
        Binding("m", "screen.page('metrics')", "Metrics"),
    ]

    class Selected(Message):
        """The cursor moved to another run, or the first run appeared."""

        def __init__(self, row: RunRow) -> None:
            super().__init__()
            self.row = row

    class CostsWanted(Message):
        """Runs are looked at whose cost nobody has looked up yet."""

    class OlderWanted(Message):
        """The end of the list is looked at, and other machines have older runs."""

    class Opened(Message):
        """Enter was pressed on a run."""

    def __init__(self, state: StateDirectory, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines = RunLines()
        self._state = state
        self._arranger = Arranger()
        self._typing = False
        self._leaving = False
        self._came_from: str | None = None
        self._asked: tuple[Any, ...] | None = None
        self._busy = False
        self._wanted: str | None = None
        self._to_the_end = False
        self._told_costs = False

    # ---- which run

    @property
    def selected_row(self) -> RunRow | None:
        """The run under the cursor; of a folded group, its first."""
        line = self._line
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
        if self.lines.marked:
            return [self.lines.live.get(one, row) for one, row in self.lines.marked.items()]
        return list(self._rows_here)

    @property
    def _rows_here(self) -> tuple[RunRow, ...]:
        line = self._line
        return line.rows if isinstance(line, FoldedGroup) else (line,) if line else ()

    @property
    def _line(self) -> Line | None:
        return self.lines.line_of(self.key)

    def view_of(self, run_id: str) -> RunView | None:
        """A run in full; None when it is gone."""
        runs = self.lines.snapshot.runs if self.lines.snapshot else ()
        found = next((view for view in runs if view.run.id == run_id), None)
        if found is None and self._state.run(run_id).path.is_dir():
            return view_run(read_run(self._state, run_id))
        return found

    # ---- taking in and arranging

    def show(self, snapshot: PanelSnapshot, select: str | None = None) -> None:
        """Take in a new snapshot; the cursor stays on its run, or goes to the one to `select`."""
        self._wanted = select or self._wanted
        self.lines.show(snapshot)
        self._arrange()

    def remote_changed(self) -> None:
        """Show what other machines run now."""
        if self.lines.snapshot is not None:
            self.lines.show_remote()
            self._arrange()

    def _arrange(self) -> None:
        lines = self.lines
        if lines.snapshot is None:
            return
        live, ended = list(lines.live.values()), lines.ended
        asked = (live, ended.rows, ended.version, lines.choice)
        few = len(ended.rows) < _FEW
        ready = few or self._arranger.is_ready(ended.version, live, lines.choice)
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
        self.lines.arrange(table)
        self._lay_out()
        keys, wanted = table.keys, self._wanted
        if wanted is not None and wanted in keys:
            self._wanted = None
            self.select(wanted)
        elif keys and self._to_the_end:
            self.select(keys[-1])
            self._to_the_end = not self.lines.is_whole
        elif keys and self.key not in keys:
            came_from = self._came_from
            self.select(came_from if came_from is not None and came_from in keys else keys[0])

    def _lay_out(self) -> None:
        lines = self.lines
        if lines.snapshot is None:
            return
        width = self.scrollable_content_region.width or self.size.width
        header = lines.lay_out(width, self.app.current_theme)
        if len(lines):
            self.set_rows(lines.table.keys, lines, (), header)
        else:
            self.set_rows((), (), [Text(lines.nothing, style="dim")])
        if lines.lacks_costs(self.seen) and not self._told_costs:
            self._told_costs = True
            self.post_message(self.CostsWanted())
        self.retitle(lines.title(self._typing), lines.subtitle())

    # ---- the cursor

    def put_cursor(self, key: str) -> bool:
        """Put the cursor on a run and scroll to it; whether it was elsewhere."""
        self._to_the_end = False
        return super().put_cursor(key)

    def action_go_last(self) -> None:
        """To the last run: also when it has not been read yet."""
        super().action_go_last()
        self._to_the_end = not self.lines.is_whole
        self._look_further()

    def select(self, run_id: str) -> None:
        """Put the cursor on a run."""
        if self.put_cursor(run_id):
            self.moved()

    def moved(self) -> None:
        """Say which run it is."""
        row = self.selected_row
        if row is not None:
            self.post_message(self.Selected(row))
        if not self._typing and self.cursor >= len(self.keys) - _NEAR_THE_END:
            self._look_further()

    def _look_further(self) -> None:
        """Have other machines tell of older runs, if they have any."""
        if self.lines.remote.older:
            self.post_message(self.OlderWanted())

    def action_open(self) -> None:
        """Everything about the run under the cursor; a folded group unfolds."""
        if isinstance(self._line, FoldedGroup):
            self.action_fold()
        elif self.key is not None:
            self.post_message(self.Opened())

    def on_resize(self) -> None:
        """Lay the columns out anew."""
        self._lay_out()

    # ---- filter

    def action_filter(self) -> None:
        """Type what to find."""
        self._typing = True
        self._came_from = self._came_from or self.key
        self._lay_out()
        self.refresh_bindings()

    def on_key(self, event: events.Key) -> None:
        """While one types, what is typed goes into the filter, and the table follows."""
        if not self._typing:
            # A key that leads to another pane has not done so yet when the next one is here: that
            # one is for the pane it leads to.
            self._leaving = self._leaving or event.key in _LEADING_AWAY
            if event.key == "slash" and not self._leaving:
                # Not by its binding: what is typed behind it may be here before that has run.
                self.action_filter()
                event.stop()
                event.prevent_default()
            return
        text = self.lines.choice.query.text
        if event.key in ("enter", "escape"):
            self._end_typing(text if event.key == "enter" else "")
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
            self._find(self.lines.choice.query.text + " ".join(event.text.split()))
            event.stop()

    def on_blur(self) -> None:
        """Who goes elsewhere has typed enough."""
        super().on_blur()
        self._leaving = False
        if self._typing:
            self._end_typing(self.lines.choice.query.text)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Which keys the filter takes while one types."""
        return self._typing and character is not None and character.isprintable()

    def _end_typing(self, text: str) -> None:
        self._typing = False
        self._find(text.strip())
        if "host:" in text:
            self._look_further()
        self.refresh_bindings()

    def _find(self, text: str) -> None:
        now = self.lines.snapshot.time if self.lines.snapshot else 0.0
        query = parse_query(text, now, typing=self._typing) if text else RunQuery("")
        if not text and not self._typing:
            self._wanted, self._came_from = self._came_from, None
        self._choose(query=query)

    def action_clear(self) -> None:
        """Esc: the filter goes, then the marks, then the order; with none of them it is the
        screen's.
        """
        if self.lines.choice.query.text:
            self._find("")
        elif self.lines.marked:
            self.forget_marks()
        elif self.lines.choice.sort:
            self._choose(sort=())
        else:
            raise SkipAction

    # ---- order, metric, marks, groups

    def action_sort(self, by: int) -> None:
        """Sort by the next column, or the one before; past the last: newest first again."""
        columns, sort = self.lines.sortable, self.lines.choice.sort
        at = columns.index(sort[0].column) if sort and sort[0].column in columns else -1
        at = (at + 1 + by) % (len(columns) + 1) - 1
        self._choose(sort=(SortKey(columns[at]),) if at >= 0 else ())

    def action_turn(self) -> None:
        """Sort the other way round."""
        sort = self.lines.choice.sort
        if sort:
            self._choose(sort=(sort[0]._replace(turned=not sort[0].turned), *sort[1:]))

    def sort_by(self, column: str) -> None:
        """Sort by a column; again: the other way round."""
        sort = self.lines.choice.sort
        if sort and sort[0].column == column:
            self.action_turn()
        else:
            self._choose(sort=(SortKey(column),))

    def header_clicked(self, x: int) -> None:
        """Sort by the column whose heading was clicked."""
        column = self.lines.column_at(x)
        if column:
            self.sort_by(column)

    def action_metric(self, by: int) -> None:
        """`last` and `best` are those of another metric of the run under the cursor."""
        row, metric = self.selected_row, self.lines.choice.metric
        names = sorted(row.metrics) if row is not None else []
        if names:
            at = names.index(metric) if metric in names else -1
            at = (at + 1 + by) % (len(names) + 1) - 1
            self._choose(metric=names[at] if at >= 0 else None)

    def action_mark(self) -> None:
        """Mark the run under the cursor, or no longer; go on to the next."""
        for row in self._rows_here:
            if self.lines.marked.pop(row.id, None) is None:
                self.lines.marked[row.id] = row
        self._lay_out()
        self.action_move(1)

    def forget_marks(self) -> None:
        """No run is marked any longer."""
        self.lines.marked.clear()
        self._lay_out()

    def action_fold(self) -> None:
        """Fold the group under the cursor into one line, or unfold it."""
        line, folded = self._line, self.lines.choice.folded
        if isinstance(line, FoldedGroup):
            self._wanted = line.rows[0].id
            self._choose(folded=folded - {line.group})
        elif line is not None and line.group:
            self._wanted = FoldedGroup(line.group, ()).id
            self._choose(folded=folded | {line.group})

    def action_fold_all(self) -> None:
        """Fold every group, or unfold them all."""
        ended = self.lines.ended.rows
        groups = {row.group for row in (*self.lines.live.values(), *ended) if row.group}
        folded = self.lines.choice.folded
        self._choose(folded=frozenset() if folded else frozenset(groups))

    def _choose(self, **changes: Any) -> None:
        self.lines.choose(self.lines.choice._replace(**changes))
        self._arrange()
        self._lay_out()
