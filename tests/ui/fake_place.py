"""A third kind of place for tests: one cluster whose only run lives in this process."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from runners.model.states import State
from runners.places.actions import Outcome, RunAction, StopRuns
from runners.places.remote import remote_row
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.state.layout import StateDirectory
from tests.support import make_run
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_view import view_run

RUN = "20261120-101500-demo-7f3a"


class FakePlace:
    """The cluster, both what it shows and what can be done there."""

    name = "cluster"
    obstacle = address = older_problem = ""
    clock_offset = came = 0.0
    is_reached, is_down, hidden = True, False, 0
    is_machine = True
    status_text = "reached"

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self.done: list[RunAction] = []
        self._folder = folder
        self._changed = changed
        self._view = view_run(make_run(directory=str(folder)))
        self._show(self._view.run.state)

    @property
    def place(self) -> "FakePlace":
        return self

    def _show(self, state: State) -> None:
        row = msgspec.structs.replace(row_of_view(self._view), state=state, is_live=state.is_live)
        self.snapshot = PlaceSnapshot(host=self.name, runs={RUN: row})
        self.rows: tuple[RunRow, ...] = (remote_row(self.name, row, 0.0),)
        self._changed()

    def run(self, run_id: str) -> RunRow | None:
        return self.snapshot.runs.get(run_id)

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        self.done.append(action)
        if isinstance(action, StopRuns):
            self._show(State.STOPPED)
        done(Outcome(messages=("stopping it",)))

    def command(self, arguments: Sequence[str], done: Callable[[Outcome], None]) -> None:
        done(Outcome(problem="no commands here"))

    def ask(
        self, question: str, arguments: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        done(self._view if question == "view" else None, "" if question == "view" else "not known")

    def log_path(self, run: str) -> Path:
        return self._folder / f"{run}.log"

    def follow(self, run: str) -> None:
        self.log_path(run).write_text("written on the cluster\n")

    def keep_logs(self, shown: Collection[Path]) -> None:
        pass

    def preset_flags(self, preset: str, given: Sequence[str]) -> list[str]:
        return []

    def reach(self) -> None:
        pass

    def load_older(self) -> None:
        pass


class FakeKind:
    """One cluster, always there."""

    not_set_up: Sequence[str] = ()

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        self.places = {"cluster": FakePlace(state.root, changed)}

    def refresh(self) -> None:
        pass

    def stop(self) -> None:
        pass
