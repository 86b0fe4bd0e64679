"""The launch form's plan: exactly what runs, with the programs' variables folded."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Collapsible, Label, Static

from runners.model.masking import mask_text

PLANNING = "planning…"
_PLANNED_WITHIN_S = 0.3


class OutcomeLines(Static):
    """What a plan comes to, in the few lines that are seen without scrolling.

    Where it has more, its first long part gives way: what mends it, GPUs and price come after.
    """

    MOST = 5

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._text = Text()

    def put(self, text: Text) -> None:
        """Show this instead."""
        self._text = text
        self.update(self._fitting(self.content_size.width))

    def on_resize(self) -> None:
        """Another width: more or less of it fits."""
        self.update(self._fitting(self.content_size.width))

    def _fitting(self, width: int) -> Text:
        parts = list(self._text.split())
        while width and _height(parts, width) > self.MOST:
            long = next((part for part in parts if _height([part], width) > 1), None)
            if long is None:
                break
            long.truncate(long.cell_len - 1, overflow="ellipsis")
        return Text("\n").join(parts)


def _height(parts: Sequence[Text], width: int) -> int:
    return sum(Content.from_rich_text(part).get_height({}, width) for part in parts)


class PlanView(Vertical):
    """A plan, or what is wrong with what was typed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._outcome: Text | None = None
        """What the plan that is shown comes to; None while there is none."""
        self._late: Timer | None = None

    def compose(self) -> ComposeResult:
        """The plan; below it, folded, what stands in the programs' environment."""
        yield Label("Plan: exactly what runs", classes="heading")
        yield Static(id="planned")
        environment = Collapsible(Static(id="variables"), id="environment")
        environment.display = False  # until there is a plan
        yield environment

    def begin(self) -> None:
        """Another plan is being made: what was wrong goes at once, a plan only when it is late."""
        self._stop_waiting()
        if self._outcome is None:
            self._draw(Text(PLANNING, style="dim"))
        else:
            self._late = self.set_timer(_PLANNED_WITHIN_S, self._say_planning)

    def show(
        self, outcome: Text, plan: RenderableType, summary: str, variables: RenderableType
    ) -> None:
        """Show a plan: what it comes to, and the `summary` of its variables, which unfolds."""
        self._stop_waiting()
        self._outcome = outcome
        self._draw(outcome, plan, summary, variables)

    def show_outcome(self, outcome: Text) -> None:
        """The plan that is shown comes to this: what its checks say is known now."""
        self._stop_waiting()
        self._outcome = outcome
        self._show_outcome(outcome)

    def show_problem(self, problem: str) -> None:
        """Show why there is no plan."""
        self._stop_waiting()
        self._outcome = None
        # A key of presets, which the form has under a plainer name.
        problem = problem.replace("working_directory: ", "folder: ")
        text = Text(mask_text(problem), style="red")
        self._draw(Text.assemble(("✘ ", "red"), text), text)

    def clear(self) -> None:
        """Nothing is planned yet of what was chosen."""
        self._outcome = None
        self.begin()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.stop()

    def _say_planning(self) -> None:
        before = "" if self._outcome is None else self._outcome.plain
        self._show_outcome(Text.assemble(f"{PLANNING} ", (before, "dim")))

    def _show_outcome(self, outcome: Text) -> None:
        """Say what a plan comes to where it is seen without scrolling, unless the form closes."""
        for place in self.screen.query(OutcomeLines) if self.is_attached else ():
            place.put(outcome)

    def _draw(
        self,
        outcome: Text,
        plan: RenderableType | None = None,
        summary: str = "",
        variables: RenderableType = "",
    ) -> None:
        self._show_outcome(outcome)
        self.query_one("#planned", Static).update(outcome if plan is None else plan)
        environment = self.query_one("#environment", Collapsible)
        environment.display = bool(summary)
        environment.title = f"Environment: {summary}"
        self.query_one("#variables", Static).update(variables)
