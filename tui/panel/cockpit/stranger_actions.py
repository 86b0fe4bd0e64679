"""Ending what computes on a GPU and belongs to no run: processes of this user, asked for twice."""

from collections.abc import Sequence

from textual.app import App

from runners.lifecycle.control.end_process import OwnProcess, end_process, own_process
from runners.model.errors import FresnelError
from runners.model.gpus import GpuProcess
from tui.panel.screens.dialogs import QuestionScreen, if_answered
from tui.views.safe import safe_cell

_SHOWN = 6
_COMMAND = 60


class StrangerActions:
    """Ends processes by SIGTERM; one that was asked so before and is still there, by SIGKILL."""

    def __init__(self, app: App[object]) -> None:
        self._app = app
        self._asked: set[OwnProcess] = set()

    def end(self, seen: Sequence[GpuProcess]) -> None:
        """Ask about those of this user's; say of the others why they stay."""
        ours, others = [], []
        for process in seen:
            try:
                ours.append(own_process(process))
            except FresnelError as error:
                others.append(safe_cell(str(error)))
        if not ours:
            self._notify(others[0] if others else "no process here is outside of a run")
            return
        force = all(process in self._asked for process in ours)
        how = "SIGKILL, at once" if force else "SIGTERM; K again: SIGKILL"
        named = [f"pid {each.pid}  {safe_cell(each.command)[:_COMMAND]}" for each in ours[:_SHOWN]]
        lines = [*named, *others[:_SHOWN], "", f"By {how}. It belongs to no run."]
        title = f"End {len(ours)} process{'es' if len(ours) > 1 else ''} of yours?"
        sure = f"{', '.join(named)}\n\nWhat it has not saved is lost."
        again = QuestionScreen("Are you sure?", sure, "End it")
        end = if_answered(lambda _: self._end(ours, force))
        ask_again = if_answered(lambda _: self._app.push_screen(again, end))
        self._app.push_screen(QuestionScreen(title, "\n".join(lines), "End it"), ask_again)

    def _end(self, processes: Sequence[OwnProcess], force: bool) -> None:
        for process in processes:
            try:
                end_process(process, force)
            except FresnelError as error:
                self._notify(str(error))
            else:
                self._asked.add(process)
                self._notify(f"pid {process.pid} was sent {'SIGKILL' if force else 'SIGTERM'}")

    def _notify(self, text: str) -> None:
        self._app.notify(text, timeout=4, markup=False)
