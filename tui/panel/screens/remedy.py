"""What can be done about a failed run: the cause, on what it rests, remedies with their diffs."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from runners.diagnosis.remedy.remedies import Proposal
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.model.run_ids import by_names
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import ListDialog, is_open
from tui.views.health.remedy_offer import RemedyOffer
from tui.views.safe import safe_cell

_NO_REMEDY = "No remedy can be applied by a key; `a` opens it in the launch form."
_KEYS = "a launch form · Esc close"
_SIGNS = {"-": "red", "+": "green"}


class RemedyScreen(ListDialog[str | None]):
    """Returns the remedy to launch the run with, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,h", "dismiss(None)", "close"),
        hotkey("a", "again", "open the run in the launch form"),
        hotkey("enter", "apply", "launch the run with the remedy under the cursor", priority=True),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self._run_name = name
        self._offer: RemedyOffer | None = None

    def compose(self) -> ComposeResult:
        """The verdict, the remedies, and what the one under the cursor changes."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_title = f"Why {self._run_name} ended"
            dialog.border_subtitle = _KEYS
            with VerticalScroll(id="verdict", can_focus=False):
                yield Static("reading its log…", id="verdict-text", markup=False)
            yield OptionList(id="remedies", compact=True)
            with VerticalScroll(id="remedy-diff", can_focus=False):
                yield Static(id="remedy-diff-text")

    def on_mount(self) -> None:
        """Nothing to choose yet."""
        self.query_one("#remedies").display = self._offer is not None
        if self._offer is not None:
            self.take(self._offer)

    def take(self, offer: RemedyOffer) -> None:
        """Show the verdict and the remedies, which came a moment later."""
        self._offer = offer
        if not is_open(self):
            return
        self.query_one("#verdict-text", Static).update(_verdict_text(offer.verdict, offer.problem))
        options = self.query_one(OptionList)
        options.display = bool(offer.proposals)
        # Without a remedy there is no diff that may be long.
        self.query_one(".dialog").set_class(not offer.proposals, "fit")
        options.add_options([Option(_option(found)) for found in offer.proposals])
        if offer.proposals:
            self.query_one(
                ".dialog"
            ).border_subtitle = f"↑↓ choose · Enter launch with it · {_KEYS}"
            options.highlighted = 0
            options.focus()
        elif offer.verdict is not None or offer.problem:
            self.query_one("#remedy-diff-text", Static).update(_NO_REMEDY)

    def fail(self, problem: str) -> None:
        """Say why nothing came."""
        self.take(RemedyOffer(None, problem=problem))

    @property
    def _proposals(self) -> tuple[Proposal, ...]:
        return self._offer.proposals if self._offer is not None else ()

    @on(OptionList.OptionHighlighted)
    def _highlight(self, event: OptionList.OptionHighlighted) -> None:
        text = Text()
        proposal = self._proposals[event.option_index]
        for line in proposal.diff:
            text.append(f"{safe_cell(line)}\n", style=_SIGNS.get(line[:1], ""))
        if proposal.waits:
            text.append(f"it would wait: {safe_cell(by_names(proposal.waits))}\n", style="yellow")
        if proposal.obstacle:
            text.append(f"not possible: {safe_cell(by_names(proposal.obstacle))}\n")
        self.query_one("#remedy-diff-text", Static).update(text)

    def action_again(self) -> None:
        """Leave it for the launch form, as the cockpit opens it."""
        cockpit = self.app.screen_stack[0]
        self.dismiss(None)
        self.app.call_later(cockpit.run_action, "launch('again')")

    def action_apply(self) -> None:
        """Launch with the remedy under the cursor."""
        place = self.query_one(OptionList).highlighted
        if place is None:
            self.notify(_NO_REMEDY if self._offer else "its log is still read", timeout=4)
            return
        chosen = self._proposals[place]
        if chosen.obstacle:
            self.notify(f"not possible: {by_names(chosen.obstacle)}", timeout=4, markup=False)
        else:
            self.dismiss(chosen.name)


def _verdict_text(verdict: Diagnosis | NotKnown | None, problem: str) -> Text:
    text = Text()
    if verdict is None and not problem:
        text.append("It ended successfully: nothing to explain.\n")
    elif isinstance(verdict, NotKnown):
        text.append(f"{safe_cell(verdict.message)}\n", style="bold")
    elif verdict is not None:
        text.append(f"{safe_cell(verdict.cause)}\n", style="bold")
        if verdict.line:
            text.append(f"{safe_cell(verdict.line)}\n", style="dim")
        text.append(f"evidence: {safe_cell('; '.join(verdict.rests_on))}\n")
        if verdict.remedy:
            text.append(f"what to do: {safe_cell(verdict.remedy)}\n")
    if problem:
        text.append(f"{safe_cell(problem)}\n", style="yellow")
    return text


def _option(proposal: Proposal) -> Text:
    obstacle = "not possible · " if proposal.obstacle else ""
    return Text(
        f"{proposal.name:<22} {obstacle}{proposal.summary}",
        style="dim" if obstacle else "",
        no_wrap=True,
        overflow="ellipsis",
    )
