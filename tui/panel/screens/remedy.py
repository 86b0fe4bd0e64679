"""What can be done about a failed run: the cause, on what it rests, remedies with their diffs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.console import Console
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from runners.diagnosis.remedy.remedies import Proposal
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.model.run_ids import by_names
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import ListDialog, dialog_box, is_open
from tui.panel.widgets.choice_list import ChoiceList
from tui.views.health.remedy_offer import RemedyOffer
from tui.views.safe import safe_cell

_NO_REMEDY = "No remedy can be applied by a key; `a` opens it in the launch form."
_KEYS = "a launch form · Esc close"
_EDGES = 4
_LEAST = 3
_SIGNS = {"-": "red", "+": "green"}


class RemedyScreen(ListDialog[str | None]):
    """Returns the remedy to launch the run with, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,h", "dismiss(None)", "close"),
        hotkey("a", "again", "open the run in the launch form"),
        hotkey("pagedown,space", "page('down')", "a page of the text down, up", priority=True),
        hotkey("pageup", "page('up')", "a page of the text down, up", priority=True),
        hotkey("enter", "apply", "launch the run with the remedy under the cursor", priority=True),
    ]

    def __init__(self, name: str, again: Callable[[], object]) -> None:
        """`again` opens the run in the launch form."""
        super().__init__()
        self._run_name, self._again = name, again
        self._offer: RemedyOffer | None = None

    def compose(self) -> ComposeResult:
        with dialog_box(f"Why {self._run_name} ended", _KEYS, "wide fit"):
            with VerticalScroll(id="verdict", can_focus=False):
                yield Static("reading its log…", id="verdict-text", markup=False)
            yield ChoiceList(id="remedies")
            with VerticalScroll(id="remedy-diff", can_focus=False):
                yield Static(id="remedy-diff-text")

    def on_mount(self) -> None:
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
        options.add_options([Option(_option(found)) for found in offer.proposals])
        self._share_rows()
        if offer.proposals:
            options.highlighted = 0
            options.focus()
        elif offer.verdict is not None or offer.problem:
            self.query_one("#remedy-diff-text", Static).update(_NO_REMEDY)

    def on_resize(self) -> None:
        if self._offer is not None:
            self._share_rows()

    def _share_rows(self) -> None:
        """The verdict has all rows that the remedies and what they change leave.

        What changes has those of the longest change, so that nothing jumps.
        """
        offer, dialog = self._offer, self.query_one(".dialog")
        assert offer is not None
        widest = dialog.styles.max_width
        width = min(self.size.width, int(widest.value) if widest else self.size.width) - _EDGES
        text = _rows(_verdict_text(offer.verdict, offer.problem), width)
        changes = max((_rows(_change_text(found), width) for found in offer.proposals), default=1)
        rows = self.size.height - 3 - (len(offer.proposals) + 1 if offer.proposals else 0)
        room = max(_LEAST, rows - min(changes, max(_LEAST, rows // 4)))
        self.query_one("#verdict").styles.max_height = room
        self.query_one("#remedy-diff").styles.height = min(changes, max(1, rows - min(text, room)))
        can_apply = any(not found.obstacle for found in offer.proposals)
        hints = [
            "↑↓ choose" if offer.proposals else "",
            "Enter launch with it" if can_apply else "",
        ]
        hints += ["PgDn more" if text > room or text + changes > rows else "", _KEYS]
        dialog.border_subtitle = " · ".join(filter(None, hints))

    def fail(self, problem: str) -> None:
        """Say why nothing came."""
        self.take(RemedyOffer(None, problem=problem))

    @property
    def _proposals(self) -> tuple[Proposal, ...]:
        return self._offer.proposals if self._offer is not None else ()

    @on(OptionList.OptionHighlighted)
    def _highlight(self, event: OptionList.OptionHighlighted) -> None:
        text = _change_text(self._proposals[event.option_index])
        self.query_one("#remedy-diff-text", Static).update(text)

    def action_page(self, way: str) -> None:
        """Scroll what has no room."""
        for part in self.query(VerticalScroll):
            getattr(part, f"scroll_page_{way}")(animate=False)

    def action_again(self) -> None:
        """Leave it for the launch form."""
        self.dismiss(None)
        self.app.call_later(self._again)

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


def _rows(text: Text, width: int) -> int:
    """How many rows it takes."""
    return len(text.wrap(Console(width=width), width))


def _change_text(proposal: Proposal) -> Text:
    """What a remedy changes, or why it cannot be applied."""
    text = Text()
    for line in proposal.diff:
        text.append(f"{safe_cell(line)}\n", style=_SIGNS.get(line[:1], ""))
    if proposal.waits:
        text.append(f"it would wait: {safe_cell(by_names(proposal.waits))}\n", style="yellow")
    if proposal.obstacle:
        text.append(f"not possible: {safe_cell(by_names(proposal.obstacle))}\n")
    text.rstrip()
    return text


def _verdict_text(verdict: Diagnosis | NotKnown | None, problem: str) -> Text:
    text = Text()
    if verdict is None and not problem:
        text.append("It ended successfully: nothing to explain.\n")
    elif isinstance(verdict, NotKnown):
        text.append(f"{safe_cell(verdict.message)}\n", style="bold")
        text.append(f"looked at: {safe_cell('; '.join(verdict.looked_at))}\n")
    elif verdict is not None:
        text.append(f"{by_names(safe_cell(verdict.cause))}\n", style="bold")
        if verdict.line:
            text.append(f"{safe_cell(verdict.line)}\n", style="dim")
        text.append(f"evidence: {by_names(safe_cell('; '.join(verdict.rests_on)))}\n")
        if verdict.remedy:
            text.append(f"what to do: {safe_cell(verdict.remedy)}\n")
    if problem:
        text.append(f"{safe_cell(problem)}\n", style="yellow")
    text.rstrip()
    return text


def _option(proposal: Proposal) -> Text:
    obstacle = "not possible · " if proposal.obstacle else ""
    return Text(
        f"{proposal.name:<22} {obstacle}{proposal.summary}",
        style="dim" if obstacle else "",
        no_wrap=True,
        overflow="ellipsis",
    )
