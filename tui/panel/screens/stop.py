"""The stop dialog: asks once, and says what will be lost."""

import signal
import time
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Button, Static

from runners.host.clock import age
from runners.model.run_ids import by_names
from runners.model.spec import Rung
from runners.model.states import State
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import Dialog, QuestionScreen, dialog_box, if_answered
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import DASH, dollars, duration, size
from tui.views.runs.run_text import projection_text
from tui.views.runs.run_view import RunView

_SECOND_S = 1.0
_KILL = signal.SIGKILL.name


class StopScreen(Dialog[str]):
    """Returns `stop`, `kill` or nothing; counts down while the run is being stopped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("y", "stop", "stop it"),
        hotkey("k", "kill", "kill it now; asks again"),
        hotkey("n,escape", "dismiss('')", "close; the run goes on"),
    ]

    def __init__(self, view: RunView, machine: str = "") -> None:
        """`machine`: where the run is, if not here; it is asked only once there."""
        super().__init__()
        self.view = view
        self._machine = machine
        self._asked = self._label()
        """What `stop` meant when it was looked at: others stop runs, too."""

    def compose(self) -> ComposeResult:
        where = f" on {self._machine}" if self._machine else ""
        with dialog_box(f"Stop {self.view.run.name or self.view.run.id}{where}?"):
            yield Static(self._text(), id="stop-text")
            with Horizontal(classes="buttons"):
                yield Button(self._label(), id="stop", variant="warning", compact=True)
                yield Button("Kill now (k)", id="kill", variant="error", compact=True)
                yield Button("Cancel (n)", id="leave", compact=True)

    def on_mount(self) -> None:
        """The harmless answer has the focus."""
        self._show_buttons()
        self.query_one("#leave").focus()
        self.set_interval(_SECOND_S, self._count_down)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "kill":
            self.action_kill()
        else:
            self.action_stop() if event.button.id == "stop" else self.dismiss("")

    def action_stop(self) -> None:
        """Take the step that the dialog names; where another came meanwhile, say so first."""
        if (means := self._label()) == self._asked:
            self.dismiss("stop")
            return
        self._asked = means
        self.notify(f"meanwhile it went a step further; once more: {means}", markup=False)

    def action_kill(self) -> None:
        """Ask whether to kill at once."""
        warning = (
            "SIGKILL goes to everything the run has started, at once. "
            f"Nothing more is saved: {self._loss()}"
        )
        question = QuestionScreen("Kill it now?", warning, "Kill now")
        self.app.push_screen(question, if_answered(lambda _: self.dismiss("kill")))

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; a run that has ended meanwhile needs no answer."""
        if self._machine:
            return
        view = next((other for other in snapshot.runs if other.run.id == self.view.run.id), None)
        if view is None or not view.run.is_live:
            self.dismiss("")
        else:
            self.view = view
            self._count_down()

    def _count_down(self) -> None:
        self.query_one("#stop-text", Static).update(self._text())
        self._show_buttons()

    def _show_buttons(self) -> None:
        """Where the next step is the kill, one button says so."""
        self.query_one("#stop", Button).label = self._label()
        following = self._following() if self.view.run.state is State.STOPPING else ()
        self.query_one("#kill").display = not (following and following[0].how == _KILL)

    def _loss(self) -> str:
        """What a kill loses."""
        found = self.view.checkpoint
        if found is None:
            return "no checkpoint was seen on disk, so all of its work is lost."
        ago = duration(age(found.modified, time.time()))
        return f"the work since its newest checkpoint, {ago} ago, is lost."

    def _label(self) -> str:
        run = self.view.run
        if run.state is not State.STOPPING:
            return "Stop (y)"
        following = self._following()
        return f"{following[0].how} now (y)" if following else "Ask again (y)"

    def _following(self) -> tuple[Rung, ...]:
        """The steps that are still to come."""
        run = self.view.run
        stop = run.record.stop if run.record else None
        ladder = run.plan.spec.stop.ladder if run.plan else ()
        return ladder[stop.step if stop is not None else 0 :]

    def _text(self) -> Text:
        run = self.view.run
        text = Text()
        stop = run.record.stop if run.record else None
        following = self._following()
        if stop is not None:
            left = duration(max(0.0, stop.until - time.time()))
            text.append(f"It is stopping: step {stop.step} of {stop.steps}, {stop.rung}. ")
            what = f"Next step in {left}: {following[0].how}." if following else f"{left} left."
            text.append(f"{what}\n\n")
        text.append("How: ", style="bold")
        text.append(
            " → ".join(f"{rung.how} {duration(rung.wait_s)}" for rung in following)
            or (by_names(run.reason) if run.plan is None else "")
            or "nothing is left to try"
        )
        text.append("\nNewest checkpoint: ", style="bold")
        found = self.view.checkpoint
        if found is None:
            text.append("none seen on disk", style="yellow")
        else:
            text.append(
                f"{found.path.rsplit('/', 1)[-1]}, {size(found.bytes)}, "
                f"{duration(age(found.modified, time.time()))} old"
            )
        text.append("\nWhat it has not saved by the last step is lost.", style="dim")
        text.append("\nCost so far: ", style="bold")
        text.append(dollars(self.view.money.cost))
        text.append(projection_text(self.view.money))
        fraction = self.view.progress.fraction
        text.append("\nProgress: ", style="bold")
        text.append(DASH if fraction is None else f"{fraction:.0%}")
        return text
