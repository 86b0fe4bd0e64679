"""The stop dialog: asks once, and says what will be lost."""

import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from runners.model.states import State
from tui.panel.feed import PanelSnapshot
from tui.views.format import DASH, dollars, duration, size
from tui.views.run_text import projection_text
from tui.views.run_view import RunView


class StopScreen(ModalScreen[bool]):
    """Returns whether to stop; counts down while the run climbs its ladder."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Stop"),
        Binding("n,escape", "dismiss(False)", "Leave it"),
    ]

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        """What happens, what is lost, two buttons."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = f"Stop {self.view.run.name or self.view.run.id}?"
            yield Static(self._text(), id="stop-text")
            with Horizontal(classes="buttons"):
                yield Button(self._label(), id="stop", variant="warning", compact=True)
                yield Button("Leave it (n)", id="leave", compact=True)

    def on_mount(self) -> None:
        """The harmless answer has the focus."""
        self.query_one("#leave").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer."""
        self.dismiss(event.button.id == "stop")

    def show(self, picture: PanelSnapshot) -> None:
        """Count down; a run that has ended meanwhile needs no answer."""
        view = next((one for one in picture.runs if one.run.id == self.view.run.id), None)
        if view is None or not view.run.is_live:
            self.dismiss(False)
        else:
            self.view = view
            self.query_one("#stop-text", Static).update(self._text())
            self.query_one("#stop", Button).label = self._label()

    def _label(self) -> str:
        return "Next rung now (y)" if self.view.run.state is State.STOPPING else "Stop (y)"

    def _text(self) -> Text:
        run, plan = self.view.run, self.view.run.plan
        text = Text()
        ladder = plan.stop.ladder if plan else ()
        stop = run.record.stop if run.record else None
        if stop is not None:
            text.append(f"It is stopping: {stop.rung} (rung {stop.step} of {stop.steps}), ")
            text.append(f"next rung in {duration(max(0.0, stop.until - time.time()))}.\n\n")
            ladder = ladder[stop.step :]
        text.append("How: ", style="bold")
        text.append(
            " → ".join(f"{rung.how} {duration(rung.wait_s)}" for rung in ladder)
            or "nothing is left to try"
        )
        text.append("\nNewest checkpoint: ", style="bold")
        found = self.view.checkpoint
        if found is None:
            text.append("none seen on disk", style="yellow")
        else:
            text.append(
                f"{found.path.rsplit('/', 1)[-1]}, {size(found.bytes)}, "
                f"{duration(time.time() - found.modified)} old"
            )
        text.append("\nCost so far: ", style="bold")
        text.append(dollars(self.view.money.cost))
        text.append(projection_text(self.view.money))
        fraction = self.view.progress.fraction
        text.append("\nProgress: ", style="bold")
        text.append(DASH if fraction is None else f"{fraction:.0%}")
        return text
