"""The places of the runs that are shown, and what is asked of them for the panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from textual.app import App

from runners.model.errors import FresnelError
from runners.places.place import Place
from runners.places.run_row import RunRow
from tui.panel.notifications import notify_error
from tui.snapshot.questions import LaunchQuestion, Question
from tui.views.runs.run_view import RunView

if TYPE_CHECKING:
    from runners.places.here import HerePlace

_PATIENCE_S = 20.0

Answer = TypeVar("Answer", bound=msgspec.Struct)


class PlaceOfRuns:
    """Finds the place of a run by its row, and asks it."""

    def __init__(
        self,
        app: App[Any],
        local: HerePlace,
        find: Callable[[str], Place | None],
        view_of: Callable[[str], RunView | None],
    ) -> None:
        """`find` has the places that are known by name, `view_of` the runs of this machine."""
        self._app = app
        self._local = local
        self._find = find
        self._view_of = view_of

    def of(self, row: RunRow) -> Place:
        """Where the run lives."""
        return self.named(row.machine)

    def named(self, machine: str) -> Place:
        """The place of this name; this machine's is empty."""
        found = self._find(machine) if machine else None
        return found or (self._local.in_place_of(machine) if machine else self._local)

    def grouped(self, rows: Sequence[RunRow]) -> Iterator[tuple[Place, tuple[str, ...]]]:
        """The runs of each place, by the ids that it knows them by."""
        for machine in dict.fromkeys(row.machine for row in rows):
            yield self.named(machine), tuple(row.run_id for row in rows if row.machine == machine)

    # ---- asking

    def ask(
        self,
        place: Place,
        question: Question | LaunchQuestion,
        arguments: Sequence[str],
        kind: type[Answer],
        then: Callable[[Answer], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Ask a place, and go on in the app's own thread; a problem is told unless `failed` is."""
        failed = failed or partial(notify_error, self._app)
        if place.obstacle:
            failed(place.obstacle)
            return

        def done(found: object, problem: str) -> None:  # in any thread
            # The answer may come after the panel was left.
            if not self._app.is_running:
                return
            if problem:
                self._app.call_later(failed, problem)
                return
            try:
                answer = _converted(place, found, kind)
            except FresnelError as error:
                self._app.call_later(failed, error.message)
            else:
                self._app.call_later(then, answer)

        place.ask(question.value, arguments, done)

    def wait(
        self, place: Place, question: Question, arguments: Sequence[str], kind: type[Answer]
    ) -> Answer:
        """Ask a place and wait, in a thread. Raises FresnelError when there is no answer."""
        if place.obstacle:
            raise FresnelError(place.obstacle)
        answers: Queue[tuple[object, str]] = Queue()
        place.ask(question.value, arguments, lambda found, problem: answers.put((found, problem)))
        try:
            found, problem = answers.get(timeout=_PATIENCE_S)
        except Empty:
            raise FresnelError(f"{place.name} does not answer") from None
        if problem:
            raise FresnelError(problem)
        return _converted(place, found, kind)

    def view(self, row: RunRow, then: Callable[[RunView], None]) -> None:
        """The run in full: at once where it is here."""
        if not row.machine:
            view = self._view_of(row.id)
            if view is None:
                notify_error(self._app, "this run has been removed")
            else:
                then(view)
            return
        place = self.of(row)
        then = self.while_waiting(then)
        self.ask(
            place,
            Question.VIEW,
            [row.run_id],
            RunView,
            lambda view: then(_by_our_clock(view, place.clock_offset)),
        )

    def while_waiting(self, then: Callable[[Answer], None]) -> Callable[[Answer], None]:
        """`then`, but for who has opened another screen since: its keys are meant for that one."""
        asked_on = self._app.screen

        def answered(answer: Answer) -> None:
            if self._app.screen is asked_on:
                then(answer)

        return answered


def _converted(place: Place, found: object, kind: type[Answer]) -> Answer:
    """The answer as a struct. Raises FresnelError where another version means something else."""
    if isinstance(found, kind):
        return found
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        problem = f"{place.name} runs another version: {error}"
        raise FresnelError(problem, f"fresnel-tui host setup {place.name}") from None


def _by_our_clock(view: RunView, offset: float) -> RunView:
    """The moments (unix seconds) that a dialog counts from, by the clock of here."""
    checkpoint, record = view.checkpoint, view.run.record
    if checkpoint is not None:
        moved = msgspec.structs.replace(checkpoint, modified=checkpoint.modified - offset)
        view = msgspec.structs.replace(view, checkpoint=moved)
    if record is not None and record.stop is not None:
        stop = msgspec.structs.replace(record.stop, until=record.stop.until - offset)
        run = msgspec.structs.replace(view.run, record=msgspec.structs.replace(record, stop=stop))
        view = msgspec.structs.replace(view, run=run)
    return view
