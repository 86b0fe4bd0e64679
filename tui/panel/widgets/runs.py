"""The run pane: every run as a line of a table, what lives first, with a cursor.

The table is arranged at once, or in a thread where it is long; then the cursor finds its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import events, on
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.widget import Widget

from runners.places.run_row import RunRow
from tui.panel.widgets.pane_keys import RUN_KEYS
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.run_filter import FilterTyping
from tui.panel.widgets.run_lines import RunLines
from tui.panel.widgets.run_messages import (
    CostsWanted,
    OlderRunsWanted,
    RunOpened,
    RunSelected,
    TableShown,
)
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_table import Arrangement, Arranger, FoldedGroup, TableChoice

NONE_SELECTED = "no run is selected"
_FEW = 500
"""So many ended runs are arranged at once; more of them in a thread."""
_NEAR_THE_END = 3


class _Request(NamedTuple):
    """What `Arranger.arrange` takes."""

    live: list[RunRow]
    ended: tuple[RunRow, ...]
    version: int
    choice: TableChoice


class RunArranging:
    """Arranges for `owner` and hands it each table; of requests that wait, only the newest."""

    def __init__(self, owner: Widget, take: Callable[[Arrangement], None]) -> None:
        self._owner = owner
        self._take = take
        self._arranger = Arranger()
        self._waiting: _Request | None = None
        self._busy = False

    def arrange(self, lines: RunLines) -> None:
        """Have the rows arranged as they and the choice are now; nothing before a snapshot."""
        if lines.snapshot is None:
            return
        ended = lines.ended
        request = _Request(list(lines.live.values()), ended.rows, ended.version, lines.choice)
        few = len(ended.rows) < _FEW
        ready = few or self._arranger.is_ready(ended.version, request.live, lines.choice)
        # Never beside the thread: its table, made of older rows, would come last and stay.
        if ready and not self._busy:
            self._take(self._arranger.arrange(*request))
            return
        self._waiting = request
        if not self._busy:
            self._busy = True
            self._owner.run_worker(self._in_thread(), group="arrange")

    async def _in_thread(self) -> None:
        try:
            while self._waiting is not None:
                request, self._waiting = self._waiting, None
                table = await asyncio.to_thread(self._arranger.arrange, *request)
                # Else a newer one is asked for: lines that are about to move are not painted.
                if self._waiting is None:
                    self._take(table)
        finally:
            self._busy = False


class CursorTarget:
    """What decides where the cursor goes when the table has other lines."""

    def __init__(self) -> None:
        self.wanted: str | None = None
        """A run that may not be in the table yet."""
        self.to_the_end = False
        """Stay on the last line while older runs are still being read."""
        self._before_filter: str | None = None

    def moved(self) -> None:
        """Somebody has put the cursor elsewhere: there it is to be."""
        self.wanted = self._before_filter = None
        self.to_the_end = False

    def follow_filter(self, is_typed: bool, text: str, key: str | None) -> None:
        """The filter changed while the cursor was on `key`.

        What was found stays chosen; a filter that was given up leads back to where it began.
        """
        if is_typed:
            self._before_filter = self._before_filter or key
        elif text:
            self._before_filter = self.wanted = None
        else:
            self.wanted, self._before_filter = self._before_filter, None

    def find(
        self, keys: Sequence[str], before: str | None, current: str | None, is_whole: bool
    ) -> str | None:
        """The key to go to among these; None: the cursor stays on the `current` one.

        That is the one `before`, or what stands in its place where it is gone.
        """
        if not keys:
            return None
        if self.wanted in keys:
            wanted, self.wanted, self.to_the_end = self.wanted, None, False
            return wanted
        if self.to_the_end:
            self.to_the_end = not is_whole
            return keys[-1]
        # While a filter is typed, what was chosen before stays so wherever it is found.
        if self._before_filter in keys:
            return self._before_filter
        # What a filter that is typed leaves is looked at from its first run on.
        stays = current if self._before_filter is None else before
        return None if stays in keys else keys[0]


class RunPane(RowList):
    """All runs, sorted and filtered as a person likes. Announces which one the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = RUN_KEYS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines = RunLines()
        self._arranging = RunArranging(self, self._take)
        self._filter = FilterTyping(self._filter_changed)
        self._target = CursorTarget()

    @property
    def selected_row(self) -> RunRow | None:
        """The run under the cursor; of a folded group, its first."""
        return next(iter(self.lines.rows_at(self.key)), None)

    @property
    def chosen(self) -> list[RunRow]:
        """The runs an action is for: those marked, else those of the line under the cursor."""
        return self.lines.marked_rows or list(self.lines.rows_at(self.key))

    def put_cursor(self, key: str) -> bool:
        """Put the cursor on a run and scroll to it; whether it was elsewhere."""
        self._target.moved()
        return super().put_cursor(key)

    def action_go(self, to_end: bool) -> None:
        """To the first run, or the last, also when it has not been read yet."""
        super().action_go(to_end)
        if to_end:
            self._target.to_the_end = not self.lines.is_whole
            self._load_older()

    def moved(self) -> None:
        """Announce the run under the cursor."""
        if self.selected_row is not None:
            self.post_message(RunSelected())
        # Not while a filter is typed: with few lines left the cursor is always near the end.
        if not self._filter.active and self.cursor >= len(self.keys) - _NEAR_THE_END:
            self._load_older()

    def _load_older(self) -> None:
        """Ask other machines for older runs, if they have any."""
        if self.lines.remote.older:
            self.post_message(OlderRunsWanted())

    def action_open(self) -> None:
        """Everything about the run under the cursor; a folded group unfolds."""
        if isinstance(self.lines.line_of(self.key), FoldedGroup):
            self.action_choose("fold")
        else:
            self.post_message(RunOpened())

    def show(self, snapshot: PanelSnapshot, select: str | None = None) -> None:
        """Take in a new snapshot; the cursor stays on its run, or goes to the one to `select`."""
        self._target.wanted = select or self._target.wanted
        self.lines.show(snapshot)
        self._arranging.arrange(self.lines)

    def remote_changed(self) -> None:
        """Show what other machines run now."""
        self.lines.show_remote()
        self._arranging.arrange(self.lines)

    def _take(self, table: Arrangement) -> None:
        before = self.key
        self.lines.arrange(table)
        self._lay_out()
        key = self._target.find(table.keys, before, self.key, self.lines.is_whole)
        # Not `select`: that ends the waiting for older runs at the end of the list.
        if (key is not None and super().put_cursor(key)) or self.key != before:
            self.moved()

    @on(events.Resize)
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
        if lines.asks_for_costs(self.seen):
            self.post_message(CostsWanted())
        self.retitle(lines.title(self._filter.active), lines.subtitle(self.size.width - 2))
        self.post_message(TableShown())

    # ---- filter, order, metric, groups, marks

    def action_filter(self) -> None:
        """Type what to find."""
        self._filter.begin()

    def on_key(self, event: events.Key) -> None:
        """What is typed goes into the filter while it is open, and the table follows."""
        self._filter.on_key(event)

    def on_paste(self, event: events.Paste) -> None:
        self._filter.on_paste(event)

    def on_blur(self) -> None:
        self._filter.on_blur()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Which keys the filter takes while it is typed."""
        return self._filter.active and character is not None and character.isprintable()

    def _filter_changed(self) -> None:
        self._target.follow_filter(self._filter.active, self._filter.text, self.key)
        self.choose(self.lines.choice._replace(query=self._filter.query(self.lines.time)))
        if not self._filter.active and "host:" in self._filter.text:
            self._load_older()
        # The footer's keys are letters for the filter while it is typed.
        self.refresh_bindings()

    def action_clear(self) -> None:
        """Esc: the filter goes, then the marks, then the order; then it is the screen's."""
        if self._filter.text:
            self._filter.end("")
        elif self.lines.marked:
            self.forget_marks()
        elif self.lines.choice.sort:
            self.choose(self.lines.choice._replace(sort=()))
        else:
            # The screen's own meaning of Esc.
            raise SkipAction

    def action_choose(self, change: str, by: int = 1) -> None:
        """Another order, metric or folding, by its name in `run_choice.py`."""
        self.choose(_changed(self, change, by))

    def apply_view(self, query: str, choice: TableChoice) -> None:
        """Show what a filter finds, otherwise as chosen."""
        here = self.key
        self._filter.end(query)
        self.choose(choice._replace(query=self.lines.choice.query), here)

    def header_clicked(self, x: int) -> None:
        """Sort by the column whose heading was clicked."""
        self.action_choose("column", x)

    def choose(self, choice: TableChoice, key: str | None = None) -> None:
        """Show what was chosen; the cursor stays with its run, or that of `key`, and in sight."""
        wanted = self.lines.choose(choice, key or self.key) or self._target.wanted
        self._target.wanted = wanted or (None if self._filter.active else key or self.key)
        self._arranging.arrange(self.lines)
        self._lay_out()

    def action_mark(self) -> None:
        """Mark the runs of the line under the cursor, or no longer; go on to the next line."""
        if not self.lines.mark(self.key):
            self.notify(NONE_SELECTED, timeout=4)
        self._lay_out()
        self.action_move(1)

    def forget_marks(self) -> None:
        """No run is marked any longer."""
        self.lines.marked.clear()
        self._lay_out()


def _changed(pane: RunPane, change: str, by: int) -> TableChoice:
    """What a key makes of the choice; without a run there is nothing to arrange, as is said."""
    from tui.panel.widgets.run_choice import CHANGES, WHY_NOT  # the first paint does without

    lines = pane.lines
    if not len(lines):
        pane.notify(NONE_SELECTED, timeout=4)
        return lines.choice
    choice = CHANGES[change](lines, lines.line_of(pane.key), by)
    if choice == lines.choice and change in WHY_NOT:
        pane.notify(WHY_NOT[change], timeout=4)
    elif change == "metric":
        # Of runs with one metric the columns look as before.
        of = choice.metric or "each run as it is judged"
        pane.notify(f"last and best of {of}", timeout=2, markup=False)
    return choice
