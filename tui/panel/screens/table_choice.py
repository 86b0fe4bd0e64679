"""The run table's order and columns, chosen from a list; and saved views of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from runners.model.errors import WrongInput
from runners.state.layout import StateDirectory
from tui.panel.hotkeys import hotkey
from tui.panel.panel_memory import recall, remember
from tui.panel.screens.dialogs import LineScreen, ListDialog, dialog_box, if_answered
from tui.panel.widgets.choice_list import ChoiceList
from tui.views.runs.run_sort import NAMED, SortKey, parse_sort
from tui.views.runs.run_table import TableChoice

_MOST_VIEWS = 9
_JUDGED = ("last", "best")
"""Columns under a metric's name."""


class SavedView(msgspec.Struct, frozen=True):
    """A filter, an order and columns of the run table under a name.
    `sort` and `columns` are as in `list`.
    """

    name: str
    filter: str = ""
    sort: str = ""
    metric: str | None = None
    columns: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What it shows, in a line."""
        return "  ".join(filter(None, (self.filter, self.sort, " ".join(self.columns))))

    def shown(self, choice: TableChoice) -> TableChoice:
        """A choice with this order and these columns; no order where it is not understood."""
        try:
            sort = parse_sort(self.sort) if self.sort else ()
        except WrongInput:
            sort = ()
        return choice._replace(sort=sort, metric=self.metric, columns=self.columns)


def sort_text(keys: Sequence[SortKey]) -> str:
    """An order as `list --sort` takes it."""
    return ",".join(f"{key.column}{'-' if key.turned else ''}" for key in keys)


def read_views(state: StateDirectory) -> list[SavedView]:
    """The saved views, in the order of their keys; damaged ones are left out."""
    found = recall(state).get("views")
    views = []
    for each in found if isinstance(found, list) else ():
        try:
            views.append(msgspec.convert(each, SavedView))
        except msgspec.ValidationError:
            continue
    return views[:_MOST_VIEWS]


class SortScreen(ListDialog[str | None]):
    """Returns the column to sort by; the present one again turns it round.
    Shows metrics and settings as columns while it is open.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,O", "dismiss(None)", "close"),
        hotkey("space", "show", "show the metric or setting as a column, or no longer"),
    ]

    def __init__(
        self,
        columns: Sequence[str],
        present: SortKey | None,
        shown: Iterable[str],
        toggle: Callable[[str], bool],
        judge: str | None,
    ) -> None:
        """`toggle` makes a metric or setting a column of the table, or no longer; `shown` are.
        `judge` is the metric that the columns `last` and `best` show.
        """
        super().__init__()
        self._columns = columns
        self._present = present
        self._shown = set(shown)
        self._toggle = toggle
        self._judge = judge

    def compose(self) -> ComposeResult:
        with dialog_box("Sort runs by", "Enter sort, again: reversed · Space show as column · Esc"):
            yield ChoiceList(*map(self._line, self._columns), id="columns")

    def on_mount(self) -> None:
        columns = self.query_one(OptionList)
        column = self._present.column if self._present is not None else ""
        columns.highlighted = self._columns.index(column) if column in self._columns else 0
        columns.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._columns[event.option_index])

    def action_show(self) -> None:
        """Have the metric or setting under the cursor as a column, or no longer."""
        columns = self.query_one(OptionList)
        at = columns.highlighted or 0
        column = self._columns[at]
        if not column.startswith(NAMED):
            self.notify("columns of its own the table shows where they have room", timeout=4)
            return
        if self._toggle(column):
            self._shown.add(column)
        else:
            self._shown.discard(column)
        columns.replace_option_prompt_at_index(at, self._line(column))

    def _line(self, column: str) -> Text:
        shown, present = "●" if column in self._shown else " ", self._present
        name = f"{column}  {self._judge}" if self._judge and column in _JUDGED else column
        if present is None or present.column != column:
            return Text(f"  {shown} {name}")
        return Text(f"{'▼' if present.descending else '▲'} {shown} {name}", style="bold")


class ViewsScreen(ListDialog[SavedView | None]):
    """Returns the view that was chosen; saves and deletes them here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,V", "dismiss(None)", "close"),
        hotkey("s", "save", "save the present filter, order and columns"),
        hotkey("x,delete", "delete", "delete the view"),
        *(hotkey(str(digit), f"choose({digit})", "show the view") for digit in range(1, 10)),
    ]

    def __init__(self, state: StateDirectory, present: Callable[[str], SavedView]) -> None:
        """`present` makes a view of what is shown now, by a name."""
        super().__init__()
        self._state = state
        self._present = present
        self._views = read_views(state)

    def compose(self) -> ComposeResult:
        with dialog_box(
            "Views of the run table", "Enter or digit show · s save · x delete · Esc close"
        ):
            yield Static("none saved yet: s saves filter, order and columns", id="no-views")
            yield ChoiceList(id="views")

    def on_mount(self) -> None:
        self._refresh()
        self.query_one(OptionList).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_choose(event.option_index + 1)

    def action_choose(self, number: int) -> None:
        """Show the view of this number, from 1."""
        if number <= len(self._views):
            self.dismiss(self._views[number - 1])
        else:
            self.notify(f"there is no view {number}", timeout=4)

    def action_save(self) -> None:
        """Ask for a name, and keep what is shown under it; a view of that name is replaced."""

        def save(name: str) -> None:
            kept = [view for view in self._views if view.name != name]
            self._keep([*kept, self._present(name)], len(kept))

        if len(self._views) == _MOST_VIEWS:
            self.notify(f"{_MOST_VIEWS} views are kept: x deletes one", timeout=4)
        else:
            shown = self._present("").text or "all runs"
            self.app.push_screen(
                LineScreen("Save a view", f"a name for: {shown}"), if_answered(save)
            )

    def action_delete(self) -> None:
        """Forget the view under the cursor."""
        place = self.query_one(OptionList).highlighted
        if place is None:
            self.notify("no view to delete", timeout=4)
        else:
            self._keep([*self._views[:place], *self._views[place + 1 :]], place)

    def _keep(self, views: list[SavedView], at: int) -> None:
        self._views = views
        if not remember(self._state, views=msgspec.to_builtins(views)):
            notice = f"kept until this list is closed: {self._state.panel} cannot be written"
            self.notify(notice, severity="warning", markup=False)
        self._refresh(at)

    def _refresh(self, at: int = 0) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        for number, view in enumerate(self._views, 1):
            text = Text(f"{number} {view.name}", style="bold")
            text.append(f"  {view.text}", style="not bold dim")
            options.add_option(Option(text))
        options.display = bool(self._views)
        self.query_one("#no-views").display = not self._views
        if self._views:
            options.highlighted = min(at, len(self._views) - 1)
