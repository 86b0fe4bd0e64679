"""The launch form's plan: exactly what runs, with the programs' variables folded."""

from __future__ import annotations

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Collapsible, Label, Static


class PlanView(Vertical):
    """A plan, or what is wrong with what was typed."""

    def compose(self) -> ComposeResult:
        """The plan; below it, folded, what stands in the programs' environment."""
        yield Label("Plan: exactly what runs", classes="heading")
        yield Static(id="planned")
        environment = Collapsible(Static(id="variables"), id="environment")
        environment.display = False  # until there is a plan
        yield environment

    def show(self, plan: RenderableType, summary: str = "", variables: RenderableType = "") -> None:
        """Show a plan, and the `summary` of its variables, which unfolds to all of them."""
        self.query_one("#planned", Static).update(plan)
        environment = self.query_one("#environment", Collapsible)
        environment.display = bool(summary)
        environment.title = f"Environment: {summary}"
        self.query_one("#variables", Static).update(variables)
