"""Money and guard: what the session, each run, preset and day cost; what may be done about it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from runners.cost.sessions import Session
from tui.panel.chosen_place import ChosenPlace
from tui.panel.hotkeys import HintRows, key_hints
from tui.panel.screen_keys import MONEY_KEYS
from tui.panel.screens.dialogs import (
    Dialog,
    LineScreen,
    PageScroll,
    QuestionScreen,
    if_answered,
    is_open,
)
from tui.panel.widgets.named_lines import NamedLines
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.questions import Question
from tui.views.format import DASH, cells_of, fitted, go_on_text
from tui.views.money.cost_report import CostPage, CostTable, padded
from tui.views.money.guard_text import guard_text, watched_text
from tui.views.money.money_text import session_pairs, total_text
from tui.views.runs.short_names import short_names

_AGAIN_S = 15.0
_LEAST_NAME = 12
_BETWEEN = 4
"""Cells between two tables."""
_NAMES = 12


class MoneyScreen(Dialog[None]):
    """The cost page; its keys act on session and guard."""

    BINDINGS: ClassVar[list[BindingType]] = MONEY_KEYS

    def __init__(self, place: ChosenPlace, read_only: bool = False) -> None:
        super().__init__()
        self.place = place
        self.read_only = read_only
        self._page: CostPage | None = None

    def compose(self) -> ComposeResult:
        with PageScroll(id="money", classes="dialog wide fit") as dialog:
            dialog.border_title = Content(f"Money and guard{self.place.of} · estimates of GPU time")
            dialog.border_subtitle = "Esc close"
            yield Static(id="money-now")
            yield HintRows(key_hints(MONEY_KEYS), id="money-keys", classes="apart")
            yield Static("reading the ledger…", id="money-tables", classes="heading")

    def on_mount(self) -> None:
        """Show what is known; the ledger is read beside it, now and every so often."""
        self.query_one("#money-keys").display = not self.read_only
        self._show_now()
        self._read()
        self.set_interval(_AGAIN_S, self._read)
        self.query_one("#money").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Read-only: nothing but looking."""
        return not self.read_only or action == "dismiss" or "scroll" in action

    def show(self, snapshot: PanelSnapshot) -> None:
        """Look again, at whichever place it is about."""
        self._show_now()

    def _show_now(self) -> None:
        account = self.place.account()
        if account is None:
            return
        guard = account.guard
        pairs = session_pairs(account.meter, account.session, account.now, guard)
        if account.session is None:
            pairs.insert(0, ("session", "none is open: s starts one"))
        if self.place.place.obstacle:
            pairs.insert(0, ("link", f"⚠ {self.place.place.obstacle}: as it was"))
        if guard.rule is None and not guard.problems:
            pairs.append(("guard", "none is set: g sets one"))
        lines = NamedLines(_NAMES)
        for name, value in pairs:
            lines.add(name, value, "yellow" if value.startswith("⚠") else "")
        self.query_one("#money-now", Static).update(lines)

    def _read(self) -> None:
        self.place.ask(Question.COSTS, CostPage, self._show_tables, self._show_problem)

    def _show_tables(self, page: CostPage) -> None:
        self._page = page
        self.on_resize()

    def on_resize(self) -> None:
        page = self._page
        if page is not None and is_open(self):
            room = self.query_one("#money").scrollable_content_region.width
            self.query_one("#money-tables", Static).update(_tables_text(page, room))

    def _show_problem(self, problem: str) -> None:
        if is_open(self):
            self.query_one("#money-tables", Static).update(Text(problem, style="red"))

    def _do(self, *arguments: str) -> None:
        """Do it there, and look again after that."""
        self.place.do(*arguments, then=self._read)

    # ---- the session

    def action_start(self) -> None:
        from tui.panel.screens.session_form import SessionScreen

        if self.place.session is not None:
            self._notify("a session is open already: e ends it")
        else:
            self.app.push_screen(SessionScreen(self.place, self._do))

    def action_budget(self) -> None:
        """Ask for another budget."""
        from runners.cost.prices import parse_rate
        from runners.model.errors import WrongInput

        session = self._need_session()
        if session is None:
            return

        def check(text: str) -> None:
            try:
                parse_rate(text)
            except ValueError:
                raise WrongInput("expected US dollars such as 100") from None

        title = f"Budget of the session{self.place.of}"
        screen = LineScreen(title, "US dollars in all:", session.budget or "", check, "100")
        self.app.push_screen(
            screen, if_answered(partial(self._do, "session", "budget", "--budget"))
        )

    def action_end(self) -> None:
        """Ask whether the session shall end; its total is said."""
        session, account = self._need_session(), self.place.account()
        if session is None or account is None:
            return
        lines = [
            f"So far: {total_text(account.meter)}.",
            "Nothing is stopped and nothing is shut down: only counting ends.",
            f"{go_on_text(account.live)}." if account.live else "",
            session.stopping,
        ]
        self._ask(f"End the session{self.place.of}?", lines, "End it", "session", "end")

    def _need_session(self) -> Session | None:
        session = self.place.session
        if session is None:
            self._notify("no session is open: s starts one")
        return session

    # ---- the guard

    def action_guard(self) -> None:
        from tui.panel.screens.guard_form import GuardScreen

        self.app.push_screen(GuardScreen(self.place, self._do))

    def action_postpone(self) -> None:
        """Ask for how long the guard shall hold back."""
        from tui.panel.screens.guard_form import ask_to_postpone

        ask_to_postpone(self.app, self.place)

    def action_resume_guard(self) -> None:
        """Undo a postponement."""
        account = self.place.account()
        rule = account.guard.rule if account is not None else None
        if account is None or rule is None or not rule.postponed_left(account.now):
            self._notify("the guard is not postponed")
        else:
            self._do("guard", "postpone", "0")

    def action_lift(self) -> None:
        """Ask whether the guard shall go."""
        account = self.place.account()
        if account is None or account.guard.rule is None:
            self._notify("no guard is set: g sets one")
            return
        lines = [
            f"It watches {watched_text(account.guard.rule)}.",
            guard_text(account.guard, account.now),
            "Without it, nothing stops the runs at these limits.",
        ]
        self._ask(f"Guard{self.place.of} off?", lines, "Guard off", "guard", "off")

    def _ask(self, title: str, lines: list[str], yes: str, *arguments: str) -> None:
        question = QuestionScreen(title, "\n".join(filter(None, lines)), yes)
        self.app.push_screen(question, if_answered(lambda _: self._do(*arguments)))

    def _notify(self, text: str) -> None:
        self.notify(text, timeout=4, markup=False)


def _tables_text(page: CostPage, room: int) -> Text:
    text = Text(no_wrap=True)
    for rows in _side_by_side([_table_lines(table, room) for table in page.tables], room):
        text.append_text(rows).append("\n")
    for note in page.notes:
        text.append(f"{note}\n", style="yellow")
    text.rstrip()
    return text or Text("no costs yet: no run had a price, and no session was open")


def _side_by_side(tables: list[list[Text]], room: int) -> Iterator[Text]:
    """The lines of the tables, as many beside each other as `room` cells hold."""
    while tables:
        count, width = 1, tables[0][0].cell_len
        while count < len(tables) and width + _BETWEEN + tables[count][0].cell_len <= room:
            width += _BETWEEN + tables[count][0].cell_len
            count += 1
        shelf, tables = tables[:count], tables[count:]
        if count > 1:  # their columns would read as those of one table
            shelf = [[head, Text("─" * head.cell_len), *rows] for head, *rows in shelf]
        blanks = [Text(" " * table[0].cell_len) for table in shelf]
        for row in range(max(map(len, shelf))):
            parts = [*zip(shelf, blanks, strict=True)]
            yield Text(" " * _BETWEEN).join(t[row] if row < len(t) else blank for t, blank in parts)
        yield Text()


def _table_lines(table: CostTable, room: int) -> list[Text]:
    """A table without the columns that say nothing, its names shortened to fit `room` cells."""
    kept = [
        place
        for place in range(len(table.headings))
        if place == 0 or any(row[place] not in ("", DASH) for row in table.rows)
    ]
    rows = [tuple(row[place] for place in kept) for row in (table.headings, *table.rows)]
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], max(_LEAST_NAME, room - sum(widths[1:]) - 2 * len(widths[1:])))
    names = short_names([row[0] for row in rows], widths[0])
    lines = [padded((names[row[0]], *row[1:]), widths) for row in rows]
    width = max(map(cells_of, lines))
    heading = Text(fitted(lines[0], width), style="bold")
    return [heading, *(Text(fitted(line, width), style="not bold") for line in lines[1:])]
