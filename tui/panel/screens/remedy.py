"""What can be done about a failed run: the cause, on what it rests, remedies with their diffs."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from runners.diagnosis.remedy.case import Case
from runners.diagnosis.remedy.remedies import Proposal, open_case, propose
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.views.health.diagnosis_text import diagnose_run
from tui.views.safe import safe_cell

_SIGNS = {"-": "red", "+": "green"}


class RemedyScreen(ModalScreen[tuple[Case, str] | None]):
    """Returns the case and the remedy to launch it with, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h", "dismiss(None)", "Close"),
        Binding("enter", "apply", "Launch with it", priority=True),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(self, state: StateDirectory, run: Run) -> None:
        super().__init__()
        self.state = state
        self.ended_run = run
        self.case: Case | None = None
        self.proposals: list[Proposal] = []

    def compose(self) -> ComposeResult:
        """The verdict, the remedies, and what the one under the cursor changes."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = f"Why {self.ended_run.name or self.ended_run.id} ended"
            dialog.border_subtitle = "↑↓ choose · Enter launch with it · Esc close"
            with VerticalScroll(id="verdict", can_focus=False):
                yield Static("looking at its log …", id="verdict-text")
            yield OptionList(id="remedies", compact=True)
            with VerticalScroll(id="remedy-diff", can_focus=False):
                yield Static(id="remedy-diff-text")

    def on_mount(self) -> None:
        """Look at the log in a thread: it may be long."""
        self.query_one("#remedies").display = False
        self._look()

    @work(thread=True)
    def _look(self) -> None:
        verdict = diagnose_run(self.ended_run)
        problem, case, proposals = "", None, []
        try:
            case = open_case(self.state, self.ended_run, verdict)
            proposals = propose(case)
        except FresnelError as error:
            problem = error.message
        self.app.call_from_thread(self._show, verdict, case, proposals, problem)

    def _show(
        self,
        verdict: Diagnosis | NotKnown | None,
        case: Case | None,
        proposals: list[Proposal],
        problem: str,
    ) -> None:
        self.case = case
        self.proposals = sorted(proposals, key=lambda one: bool(one.obstacle))
        self.query_one("#verdict-text", Static).update(_verdict_text(verdict, problem))
        options = self.query_one(OptionList)
        options.display = bool(self.proposals)
        options.add_options([Option(_option(one)) for one in self.proposals])
        if self.proposals:
            options.highlighted = 0
            options.focus()
        else:
            words = "No remedy can be applied by a key; `a` opens it in the launch form."
            self.query_one("#remedy-diff-text", Static).update(words)

    @on(OptionList.OptionHighlighted)
    def _highlight(self, event: OptionList.OptionHighlighted) -> None:
        text = Text()
        one = self.proposals[event.option_index]
        for line in one.diff:
            text.append(f"{safe_cell(line)}\n", style=_SIGNS.get(line[:1], ""))
        if one.waits:
            text.append(f"it would wait: {safe_cell(one.waits)}\n", style="yellow")
        if one.obstacle:
            text.append(f"not possible: {safe_cell(one.obstacle)}\n")
        self.query_one("#remedy-diff-text", Static).update(text)

    def action_move(self, rows: int) -> None:
        """Another remedy."""
        options = self.query_one(OptionList)
        if rows > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_apply(self) -> None:
        """Launch with the remedy under the cursor."""
        place = self.query_one(OptionList).highlighted
        if place is None or self.case is None:
            return
        chosen = self.proposals[place]
        if chosen.obstacle:
            self.notify(f"not possible: {chosen.obstacle}", timeout=4, markup=False)
        else:
            self.dismiss((self.case, chosen.name))


def _verdict_text(verdict: Diagnosis | NotKnown | None, problem: str) -> Text:
    text = Text()
    if verdict is None:
        text.append("It ended well: there is nothing to explain.\n")
    elif isinstance(verdict, NotKnown):
        text.append(f"{safe_cell(verdict.words)}\n", style="bold")
    else:
        text.append(f"{safe_cell(verdict.cause)}\n", style="bold")
        if verdict.line:
            text.append(f"{safe_cell(verdict.line)}\n", style="dim")
        text.append(f"rests on: {safe_cell('; '.join(verdict.rests_on))}\n")
        if verdict.remedy:
            text.append(f"what to do: {safe_cell(verdict.remedy)}\n")
    if problem:
        text.append(f"{safe_cell(problem)}\n", style="yellow")
    return text


def _option(one: Proposal) -> Text:
    text = Text(f"{one.name:<22} {one.words}", no_wrap=True, overflow="ellipsis")
    if one.obstacle:
        text.stylize("dim")
        text.append("  (not possible)", style="dim")
    return text
