"""What the panel does to runs, each noted as the command that does it.

Use cases are imported when first called: the first paint does not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from textual.app import App

from runners.model.errors import FresnelError, sentence_of
from runners.model.run import Run
from runners.model.run_ids import by_names, is_run_id
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.command_log import CommandLog, Undone
from tui.panel.notifications import notify_error
from tui.snapshot.feed import SnapshotFeed
from tui.views.format import duration
from tui.views.safe import safe

if TYPE_CHECKING:
    from runners.places.actions import Outcome, RunAction
    from runners.places.here import HerePlace
    from runners.places.place import Place
    from tui.panel.widgets.launch.kept_drafts import KeptDrafts

_SLOW_S = 1.0  # a launch that takes longer waits for the sampler
_CHECKS_BY_KEY = "in the launch form F7 shows all checks, and F2 there launches all the same"
_LONGEST_TEXT = 300
_MOST_TEXTS = 4
_TEXT_S, _READ_PER_S = 4.0, 15
"""A text stays for seconds, a long one for so many characters a second."""


class RunCommands:
    """Launch, drain, and what is done to runs. What became of it is told by `app`."""

    def __init__(self, app: App[Any], state: StateDirectory, feed: SnapshotFeed) -> None:
        self.log = CommandLog()
        self.feed = feed
        self.started: Callable[[str], None] = lambda _: None
        """Called with the id of a run that was launched."""
        self.drafts: KeptDrafts = {}
        """What was typed in launch forms that were left."""
        self._app = app
        self._state = state
        self._deleted: list[tuple[Place, tuple[str, ...]]] = []

    @cached_property
    def local_place(self) -> HerePlace:
        """This machine, as a place where things are done to runs."""
        from runners.places.here import HerePlace

        return HerePlace(self._state, self._in_thread, self._answer)

    # ---- on any machine

    def act(self, place: Place, action: RunAction) -> None:
        """Have it done there; noted as it is done by hand."""
        from runners.places.actions import Outcome, commands_of

        if place.obstacle:
            notify_error(self._app, place.obstacle)
            return
        noted = {self._note(place, command): command for command in commands_of(action)}
        try:
            place.act(action, partial(self._later, self._done, place, action, noted))
        except OSError as error:
            self._done(place, action, noted, Outcome(problem=sentence_of(error)))

    def undelete_last(self) -> None:
        """Bring back what this panel deleted last, else what anybody did here."""
        from runners.places.actions import RestoreRuns

        place, runs = self._deleted.pop() if self._deleted else (self.local_place, ())
        self.act(place, RestoreRuns(runs))

    def command(
        self,
        place: Place,
        arguments: Sequence[str],
        then: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        """Run a headless command there, and tell what it came to; `then` is called after that."""
        if place.obstacle:
            notify_error(self._app, place.obstacle)
            return
        noted = self._note(place, arguments)

        def done(outcome: Outcome) -> None:
            self._show_outcome(outcome, {noted: arguments})
            self.feed.refresh_now()
            then(outcome)

        place.command(arguments, partial(self._later, done))

    def _done(
        self,
        place: Place,
        action: RunAction,
        noted: Mapping[int, Sequence[str]],
        outcome: Outcome,
    ) -> None:
        from runners.places.actions import ApplyRemedy, DeleteRuns

        if isinstance(action, DeleteRuns) and outcome.changed:
            self._deleted.append((place, outcome.changed))
        elif isinstance(action, ApplyRemedy) and outcome.changed:
            self.started(_key(place, outcome.changed[0]))
        self._show_outcome(outcome, noted)

    def _show_outcome(self, outcome: Outcome, noted: Mapping[int, Sequence[str]]) -> None:
        """One notice of what was done, one of what was not, to however many runs. `noted` are the
        commands, by their lines in the log.
        """
        from runners.places.actions import few_texts

        why = dict(outcome.refused)
        for number, command in noted.items():
            named = [word for word in command if is_run_id(word)]
            runs = [run for run in named if run in why]
            reasons = few_texts([why[run] for run in runs]) or ("" if why else outcome.problem)
            if reasons:
                self.log.undone[number] = Undone(by_names(safe(reasons)), runs, len(named))
        if outcome.problem:
            notify_error(self._app, safe(outcome.problem)[: _MOST_TEXTS * _LONGEST_TEXT])
        self._show_texts(outcome.messages)

    def _note(self, place: Place, arguments: Sequence[str]) -> int:
        return self.log.note([*arguments, *(["--host", place.name] if place.name else [])])

    def _answer(self, question: str, arguments: Sequence[str]) -> object:
        """What is asked of runs here; what lives has been followed by the panel."""
        from tui.snapshot.questions import Question, answer

        snapshot = getattr(self._app, "snapshot", None)
        # Before the first one: what is asked reads the runs itself.
        if snapshot is None:
            return answer(self._state, Question(question), arguments)
        live = [view for view in snapshot.runs if view.run.is_live]
        return answer(self._state, Question(question), arguments, live, snapshot.leases)

    # ---- on this machine

    def start(
        self,
        specs: Sequence[RunSpec],
        started: Callable[[str], None],
        judged_by: str | None = None,
        noted: int | None = None,
    ) -> None:
        """Start runs; `started` is called with the id of the first. Those of a sweep are judged by
        the metric `judged_by` (empty: the loss) where that is not None. `noted` is the line of the
        command log that says it.
        """
        self._in_thread(lambda: self._start(specs, started, judged_by), noted)

    def _start(
        self, specs: Sequence[RunSpec], started: Callable[[str], None], judged_by: str | None
    ) -> None:
        from runners.lifecycle.control.start import start_together
        from runners.verify.verify import VerificationFailed

        # It would be made anew, and know nothing of the runs that hold GPUs.
        if problem := self.feed.missing():
            raise FresnelError(problem)
        checked = any(spec.verify for spec in specs)
        notice = "running the preset's checks…" if checked else "waiting for a reading of the GPUs…"
        slow = threading.Timer(_SLOW_S, self._notify, (notice,))
        slow.start()
        try:
            runs = start_together(self._state, specs)
        except VerificationFailed as refused:
            hint = "; ".join(filter(None, (refused.advice, _CHECKS_BY_KEY)))
            raise FresnelError(refused.message, hint) from None
        finally:
            slow.cancel()
        if specs[0].parallel is not None:
            self._started_sweep(specs[0].group, runs, judged_by)
        else:
            self._show_texts([_describe_launch(run) for run in runs])
        self._show_texts([note for run in runs if run.plan for note in run.plan.notes])
        self._app.call_later(started, runs[0].id)

    def _started_sweep(self, group: str, runs: Sequence[Run], judged_by: str | None) -> None:
        from runners.guard.sweep_watch import watch_for_hopeless
        from tui.views.runs.plan_text import starts_text

        if judged_by is not None:
            watch_for_hopeless(self._state, group, [run.id for run in runs], judged_by)
        starts = starts_text(len(runs), [run.reason for run in runs if run.state is State.QUEUED])
        text = f"sweep {group}: {len(runs)} runs\n{starts}\n`=` on its line compares them"
        self._notify(text, timeout=6)

    def _in_thread(self, do: Callable[[], object], noted: int | None = None) -> None:
        """Do it in a thread, tell what went wrong, then take the next snapshot at once."""

        def run() -> None:
            try:
                do()
            except (FresnelError, OSError, ValueError) as error:
                if noted is not None:
                    self.log.undone[noted] = Undone(safe(sentence_of(error)))
                self._app.call_later(notify_error, self._app, sentence_of(error))
            self._app.call_later(self.feed.refresh_now)

        self._app.run_worker(run, thread=True, group="action")

    def _later(self, do: Callable[..., None], *values: object) -> None:
        """Called in any thread: do it in the app's own, unless the app has ended."""
        if self._app.is_running:
            self._app.call_later(do, *values)

    def _show_texts(self, texts: Sequence[str]) -> None:
        from runners.places.actions import few_texts

        shown = by_names(few_texts([safe(text)[:_LONGEST_TEXT] for text in texts]))
        if shown:
            self._notify(shown, max(_TEXT_S, len(shown) / _READ_PER_S))

    def _notify(self, text: str, timeout: float = 4) -> None:
        self._app.call_later(lambda: self._app.notify(text, timeout=timeout, markup=False))


def _key(place: Place, run: str) -> str:
    """The key of a run's row."""
    return f"{place.name}/{run}" if place.name else run


def _describe_launch(run: Run) -> str:
    if run.state is State.QUEUED:
        return f"{run.name} is queued: {by_names(run.reason)}"
    expected = run.plan.forecast if run.plan else None
    seconds = expected.seconds if expected else None
    return f"launched {run.name}" + (f", about {duration(seconds)}" if seconds else "")
