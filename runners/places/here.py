"""This machine: what is asked for is done by the use cases, each imported when first needed."""

import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from runners.host.helpers import this_program
from runners.host.identity import attendance
from runners.model.closed import assert_never
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.model.states import State
from runners.places.actions import (
    ApplyRemedy,
    ChangeTags,
    DeleteRuns,
    ExtendRun,
    JudgeRuns,
    Outcome,
    PauseRuns,
    RenameRun,
    RestoreRuns,
    RunAction,
    SetPriority,
    StarRuns,
    StopRuns,
    WriteNote,
    outcome_of,
)
from runners.state.layout import StateDirectory
from runners.state.runs import read_run


def carry_out(state: StateDirectory, action: RunAction) -> Outcome:
    """Do it to the runs of this state folder. Raises what the use cases raise."""
    if isinstance(action, PauseRuns):
        return _pause(state, action)
    if isinstance(action, (StopRuns, SetPriority, ExtendRun, ApplyRemedy)):
        return _control(state, action)
    if isinstance(action, (DeleteRuns, RestoreRuns)):
        return _clear_up(state, action)
    from runners.lifecycle.control import labels

    if isinstance(action, RenameRun):
        labels.rename(state, read_run(state, action.run), action.name)
    elif isinstance(action, ChangeTags):
        runs = _runs(state, action.runs)
        for run in runs:
            if action.added:
                labels.tag(state, run, action.added)
            if action.removed:
                labels.untag(state, run, action.removed)
        # The column of tags has no room in most tables.
        changes = [f"+{tag}" for tag in action.added] + [f"-{tag}" for tag in action.removed]
        return Outcome(messages=(f"tags of {_named(runs)}: {' '.join(changes)}",))
    elif isinstance(action, WriteNote):
        labels.note(state, read_run(state, action.run), action.text)
    elif isinstance(action, StarRuns):
        for run in _runs(state, action.runs):
            labels.star(state, run, action.starred)
    elif isinstance(action, JudgeRuns):
        for run in _runs(state, action.runs):
            labels.judge_by(state, run, action.metric, action.higher)
    else:
        assert_never(action)
    return Outcome()


def _pause(state: StateDirectory, action: PauseRuns) -> Outcome:
    from runners.lifecycle.control.pause import pause, paused_text, proceed

    runs = _runs(state, action.runs)
    if action.paused:
        paused = [pause(state, run) for run in runs]
        return Outcome(messages=tuple(f"{run.name} {paused_text(run)}" for run in paused))
    return Outcome(messages=tuple(f"{proceed(state, run).name} goes on" for run in runs))


def _control(
    state: StateDirectory, action: StopRuns | SetPriority | ExtendRun | ApplyRemedy
) -> Outcome:
    if isinstance(action, StopRuns):
        from runners.lifecycle.control.stop import request_stop

        for run in _runs(state, action.runs):
            request_stop(state, run, action.force)
        return Outcome()
    if isinstance(action, SetPriority):
        from runners.lifecycle.control.queue_order import set_priority

        run = set_priority(state, read_run(state, action.run), action.priority)
        return Outcome(messages=(f"{run.name}: priority {action.priority}",))
    if isinstance(action, ExtendRun):
        from runners.lifecycle.control.job_limit import raise_limit
        from runners.model.units import duration_text

        run = read_run(state, action.run)
        limit_s = raise_limit(state, run, 60.0 * action.minutes)
        now = f", {duration_text(limit_s)} now" if limit_s else ""
        return Outcome(messages=(f"{run.name}: time limit raised by {action.minutes} min{now}",))
    from runners.diagnosis.explain import explain_run
    from runners.diagnosis.remedy.remedies import launch_treated, open_case, treat

    ended = read_run(state, action.run)
    verdict = None if ended.state is State.DONE else explain_run(ended)
    case = open_case(state, ended, verdict)
    run = launch_treated(treat(case, [action.remedy]))
    return Outcome((run.id,), (f"launched {run.name} with {action.remedy}",))


def _clear_up(state: StateDirectory, action: DeleteRuns | RestoreRuns) -> Outcome:
    from runners.lifecycle.control import trash

    if isinstance(action, RestoreRuns):
        runs = trash.undelete(state, action.runs or ("last",))
        return Outcome(tuple(run.id for run in runs), (f"brought back {_named(runs)}",))
    deletion = trash.delete(state, _runs(state, action.runs))
    gone = deletion.deleted
    messages = [f"{run_id} stays: {reason}" for run_id, reason in deletion.kept.items()]
    if gone:
        messages.insert(0, f"deleted {_named(gone)}: u restores")
    return Outcome(tuple(run.id for run in gone), tuple(messages))


def _named(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def _runs(state: StateDirectory, ids: Iterable[str]) -> list[Run]:
    return [read_run(state, run_id) for run_id in ids]


class HerePlace:
    """This machine as a place: what takes a moment is done in a thread of the front end."""

    name = ""
    obstacle = ""
    address = ""
    clock_offset = 0.0

    def __init__(
        self,
        state: StateDirectory,
        in_thread: Callable[[Callable[[], None]], None],
        answer: Callable[[str, Sequence[str]], object],
    ) -> None:
        """`answer` answers a question about runs, and may take its time."""
        self._state = state
        self._in_thread = in_thread
        self._answer = answer

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Do something to runs."""

        def do() -> None:
            try:
                outcome = carry_out(self._state, action)
            except (FresnelError, OSError, ValueError) as error:
                outcome = Outcome(problem=str(error))
            done(outcome)

        self._in_thread(do)

    def command(self, arguments: Sequence[str], done: Callable[[Outcome], None]) -> None:
        """Run a headless command in a process of its own."""
        self._in_thread(lambda: done(run_headless(arguments)))

    def ask(
        self, question: str, subjects: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        """Ask about runs and money."""

        def read() -> None:
            try:
                found = self._answer(question, subjects)
            except (FresnelError, OSError) as error:
                done(None, str(error))
            else:
                done(found, "")

        self._in_thread(read)

    def reach(self) -> None:
        """Nothing to do."""

    def preset_flags(self, preset: str, given: Sequence[str]) -> list[str]:
        """None: everything is where the preset says."""
        return []

    def log_path(self, run: str) -> Path:
        """The output of a run."""
        return self._state.run(run).output

    def follow(self, run: str) -> None:
        """Nothing to do: the run writes it."""

    def keep_logs(self, shown: Collection[Path]) -> None:
        """Nothing to do."""


def run_headless(arguments: Sequence[str]) -> Outcome:
    """Run `fresnel-tui ARGUMENTS` to its end."""
    argv = this_program(*arguments)
    done = subprocess.run(
        argv,
        env={**os.environ, **attendance()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome_of(done.stdout, done.stderr, done.returncode)
