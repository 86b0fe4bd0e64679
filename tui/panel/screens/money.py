"""Money and guard: what the session, each run, preset and day cost; what may be done about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from runners.guard.rule import GuardView
from runners.host.clock import moment_now
from runners.model.errors import FresnelError
from runners.state.layout import StateDirectory
from tui.panel.money_commands import MoneyCommands
from tui.panel.screen_keys import MONEY_KEYS
from tui.panel.screens.dialogs import LineScreen, QuestionScreen
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import DASH
from tui.views.money.cost_report import (
    CostReport,
    CostTable,
    cost_notes,
    cost_tables,
    padded,
    read_report,
)
from tui.views.money.guard_text import guard_text, watched_text
from tui.views.money.money_text import ended_text, session_pairs
from tui.views.runs.run_columns import short_names

_AGAIN_S = 15.0
_LEAST_NAME = 12
_KEYS = (
    ("s", "start a session"),
    ("b", "budget"),
    ("e", "end the session"),
    ("g", "set the guard"),
    ("p", "postpone it"),
    ("u", "undo that"),
    ("o", "guard off"),
)


class MoneyScreen(ModalScreen[None]):
    """The cost page; its keys act on session and guard."""

    BINDINGS: ClassVar[list[BindingType]] = MONEY_KEYS

    def __init__(
        self,
        state: StateDirectory,
        commands: MoneyCommands,
        snapshot: PanelSnapshot | None,
        read_only: bool = False,
    ) -> None:
        super().__init__()
        self.state = state
        self.commands = commands
        self.snapshot = snapshot
        self.read_only = read_only

    def compose(self) -> ComposeResult:
        """Session and guard, keys, tables."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = "Money and guard · estimates of GPU time"
            dialog.border_subtitle = "Esc close"
            with VerticalScroll(id="money"):
                yield Static(id="money-now")
                yield Static(_keys_text(), id="money-keys", classes="heading")
                yield Static("reading the ledger…", id="money-tables", classes="heading")

    def on_mount(self) -> None:
        """Show what is known; the ledger is read beside it, now and every so often."""
        self.query_one("#money-keys").display = not self.read_only
        self.commands.done = self._read_again
        self._show_now()
        self._read()
        self.set_interval(_AGAIN_S, self._read)
        self.query_one("#money").focus()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self.commands.done = lambda: None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Read-only: nothing but looking."""
        return not self.read_only or action == "dismiss" or "scroll" in action

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot."""
        self.snapshot = snapshot
        self._show_now()

    def _show_now(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        guard = snapshot.guard or GuardView(None, None, False)
        pairs = session_pairs(snapshot.meter, snapshot.session, moment_now(), guard)
        if snapshot.session is None:
            pairs.insert(0, ("session", "none is open: s starts one"))
        if guard.rule is None and not guard.problems:
            pairs.append(("guard", "none is set: g sets one"))
        text = Text()
        for name, value in pairs:
            text.append(f"{name:<10}", style="dim")
            text.append(f"{value}\n", style="yellow" if value.startswith("⚠") else "")
        text.rstrip()
        self.query_one("#money-now", Static).update(text)

    def _read_again(self) -> None:
        self._read()

    @work(thread=True, exclusive=True, group="ledger")
    def _read(self) -> None:
        try:
            report = read_report(self.state)
        except FresnelError as error:
            self.app.call_from_thread(self._show_tables, Text(str(error), style="red"))
            return
        room = self.query_one("#money").scrollable_content_region.width
        self.app.call_from_thread(self._show_tables, _tables_text(report, room))

    def _show_tables(self, text: Text) -> None:
        if self.is_attached:
            self.query_one("#money-tables", Static).update(text)

    # ---- the session

    @property
    def _has_session(self) -> bool:
        return self.snapshot is not None and self.snapshot.session is not None

    def action_start(self) -> None:
        """Open the form for a session."""
        from tui.panel.screens.session_form import SessionScreen

        if self._has_session:
            self._notify("a session is open already: e ends it")
            return
        reading = self.snapshot.reading if self.snapshot else None
        self.app.push_screen(SessionScreen(self.state, self.commands, reading))

    def action_budget(self) -> None:
        """Ask for another budget."""
        from runners.cost.prices import parse_rate
        from runners.model.errors import WrongInput

        if not self._need_session():
            return

        def check(text: str) -> None:
            try:
                parse_rate(text)
            except ValueError:
                raise WrongInput("expected US dollars such as 100") from None

        session = self.snapshot.session if self.snapshot else None
        before = "" if session is None else session.budget or ""
        screen = LineScreen("Budget of the session", "US dollars in all:", before, check, "100")

        def answered(text: str | None) -> None:
            if text:
                self.commands.change_budget(text)

        self.app.push_screen(screen, answered)

    def action_end(self) -> None:
        """Ask whether the session shall end; its total is said."""
        if not self._need_session() or self.snapshot is None or self.snapshot.session is None:
            return
        session = self.snapshot.session
        live = sum(view.run.is_live for view in self.snapshot.runs)
        lines = [
            f"{ended_text(session).replace('session ended', 'So far')}.",
            "Nothing is stopped and nothing is shut down: only counting ends.",
            f"{live} runs go on." if live else "",
            session.stopping,
        ]
        self._ask("End the session?", lines, "End it", self.commands.end_session)

    def _need_session(self) -> bool:
        if not self._has_session:
            self._notify("no session is open: s starts one")
        return self._has_session

    # ---- the guard

    def action_guard(self) -> None:
        """Open the form for the guard."""
        from tui.panel.screens.guard_form import GuardScreen

        rule = self.snapshot.guard.rule if self.snapshot and self.snapshot.guard else None
        self.app.push_screen(GuardScreen(self.state, self.commands, rule))

    def action_postpone(self) -> None:
        """Ask for how long the guard shall hold back."""
        from tui.panel.screens.guard_form import ask_to_postpone

        ask_to_postpone(self.app, self.commands, self.snapshot.guard if self.snapshot else None)

    def action_resume_guard(self) -> None:
        """Undo a postponement."""
        guard = self.snapshot.guard if self.snapshot else None
        if guard is None or guard.rule is None or not guard.rule.postponed_left(moment_now()):
            self._notify("the guard is not postponed")
        else:
            self.commands.postpone_guard("0")

    def action_lift(self) -> None:
        """Ask whether the guard shall go."""
        guard = self.snapshot.guard if self.snapshot else None
        if guard is None or guard.rule is None:
            self._notify("no guard is set: g sets one")
            return
        lines = [
            f"It watches {watched_text(guard.rule)}.",
            guard_text(guard, moment_now()),
            "Without it nothing stops what runs when that is reached.",
        ]
        self._ask("Guard off?", lines, "Guard off", self.commands.lift_guard)

    def _ask(self, title: str, lines: list[str], yes: str, do: Callable[[], None]) -> None:
        text = "\n".join(filter(None, lines))
        self.app.push_screen(
            QuestionScreen(title, text, yes), lambda answer: do() if answer else None
        )

    def _notify(self, text: str) -> None:
        self.notify(text, timeout=4, markup=False)


def _keys_text() -> Text:
    return Text(" · ").join(Text.assemble((key, "bold"), f" {meaning}") for key, meaning in _KEYS)


def _tables_text(report: CostReport, room: int) -> Text:
    text = Text(no_wrap=True)
    for table in cost_tables(report, by_name=True):
        text.append_text(_table_text(table, room)).append("\n")
    for note in cost_notes(report):
        text.append(f"{note}\n", style="yellow")
    if not text.plain:
        text.append("nothing has cost anything yet: no run had a price, and no session was open")
    return text


def _table_text(table: CostTable, room: int) -> Text:
    """A table without the columns that say nothing, its names shortened to fit `room` cells."""
    kept = [
        place
        for place in range(len(table.headings))
        if place == 0 or any(row[place] not in ("", DASH) for row in table.rows)
    ]
    rows = [tuple(row[place] for place in kept) for row in (table.headings, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], max(_LEAST_NAME, room - sum(widths[1:]) - 2 * len(widths[1:])))
    names = short_names([row[0] for row in rows], widths[0])
    lines = [padded((names[row[0]], *row[1:]), widths) for row in rows]
    text = Text(lines[0] + "\n", style="bold")
    for line in lines[1:]:
        text.append(f"{line}\n", style="not bold")
    return text
