"""This machine: what is asked for is done by the use cases, each imported when first needed."""

import os
import subprocess
from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TypeVar

from runners.host.helpers import this_program
from runners.host.identity import attendance
from runners.model.closed import assert_never
from runners.model.errors import FresnelError, sentence_of
from runners.model.run import Run
from runners.model.states import State
from runners.places.actions import (
    ApplyRemedy,
    ChangePriority,
    ChangeTags,
    DeleteRuns,
    ExtendRuns,
    JudgeRuns,
    Outcome,
    PauseRuns,
    RenameRun,
    RestoreRuns,
    RunAction,
    Runs,
    StarRuns,
    StopRuns,
    WriteNote,
    few_texts,
    outcome_of,
)
from runners.state.layout import StateDirectory
from runners.state.runs import read_run

Done = TypeVar("Done")


def carry_out(state: StateDirectory, action: RunAction) -> Outcome:
    """Do it to the runs of this state folder.

    What cannot be done to one of several keeps no other from it. Raises what the use cases raise.
    """
    if isinstance(action, (PauseRuns, StopRuns, ChangePriority, ExtendRuns)):
        return _control(state, action)
    if isinstance(action, ApplyRemedy):
        return _apply_remedy(state, action)
    if isinstance(action, (DeleteRuns, RestoreRuns)):
        return _clear_up(state, action)
    from runners.lifecycle.control import labels

    if isinstance(action, RenameRun):
        labels.rename(state, read_run(state, action.run), action.name)
    elif isinstance(action, ChangeTags):

        def change(run: Run) -> Run:
            if action.added:
                labels.tag(state, run, action.added)
            if action.removed:
                labels.untag(state, run, action.removed)
            return run

        # The column of tags has no room in most tables.
        changes = [f"+{tag}" for tag in action.added] + [f"-{tag}" for tag in action.removed]
        return _each(
            state, action.runs, change, lambda runs: f"tags of {_named(runs)}: {' '.join(changes)}"
        )
    elif isinstance(action, WriteNote):
        labels.note(state, read_run(state, action.run), action.text)
    elif isinstance(action, StarRuns):
        return _each(state, action.runs, lambda run: labels.star(state, run, action.starred))
    elif isinstance(action, JudgeRuns):
        by = partial(labels.judge_by, state, metric=action.metric, higher=action.higher)
        return _each(state, action.runs, by)
    else:
        assert_never(action)
    return Outcome()


def _each(
    state: StateDirectory,
    ids: Runs,
    do: Callable[[Run], Done],
    sentence: Callable[[list[Done]], str] = lambda _: "",
) -> Outcome:
    """Do it to every run; `sentence` says what was done to those where it worked."""
    done, refused = [], []
    for run_id in ids:
        try:
            done.append(do(read_run(state, run_id)))
        except (FresnelError, OSError) as error:
            refused.append((run_id, sentence_of(error)))
    message = sentence(done) if done else ""
    problem = few_texts([reason for _, reason in refused])
    return Outcome((), (message,) if message else (), problem, refused=tuple(refused))


def _control(
    state: StateDirectory, action: PauseRuns | StopRuns | ChangePriority | ExtendRuns
) -> Outcome:
    if isinstance(action, PauseRuns):
        from runners.lifecycle.control.pause import pause, paused_text, proceed

        if not action.paused:
            return _each(state, action.runs, partial(proceed, state), _continuation)
        return _each(
            state,
            action.runs,
            partial(pause, state),
            lambda runs: f"{_named(runs)} {paused_text(runs)}",
        )
    if isinstance(action, StopRuns):
        from runners.lifecycle.control.stop import request_stop

        def stop(run: Run) -> Run:
            # It may have ended while it was asked whether to.
            if run.is_live:
                request_stop(state, run, action.force)
            return run

        return _each(state, action.runs, stop, _ended_already)
    if isinstance(action, ChangePriority):
        from runners.lifecycle.control.queue_order import set_priority

        move = partial(set_priority, state, priority=action.by, is_step=True)
        return _each(state, action.runs, move, _priorities)
    from runners.lifecycle.control.job_limit import raise_limit
    from runners.model.units import duration_text

    def extend(run: Run) -> tuple[Run, float | None]:
        return run, raise_limit(state, run, 60.0 * action.minutes)

    def sentence(extended: list[tuple[Run, float | None]]) -> str:
        runs, limits = zip(*extended, strict=True)
        now = f", {duration_text(limits[0])} now" if len(runs) == 1 and limits[0] else ""
        return f"{_named(runs)}: time limit raised by {action.minutes} min{now}"

    return _each(state, action.runs, extend, sentence)


def _ended_already(runs: Sequence[Run]) -> str:
    return few_texts(
        [f"{run.name} has ended already: {run.state}" for run in runs if not run.is_live]
    )


def _continuation(runs: Sequence[Run]) -> str:
    return f"{_named(runs)} {'goes' if len(runs) == 1 else 'go'} on"


def _priorities(runs: Sequence[Run]) -> str:
    found = sorted({run.plan.spec.priority for run in runs if run.plan})
    numbers = f"priority {found[0]}" if len(found) == 1 else f"priorities {found[0]} to {found[-1]}"
    return f"{_named(runs)}: {numbers}"


def _apply_remedy(state: StateDirectory, action: ApplyRemedy) -> Outcome:
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
    found: list[Run] = []
    missing = _each(state, action.runs, found.append).refused
    deletion = trash.delete(state, found)
    gone = deletion.deleted
    messages = [reason for _, reason in missing]
    messages += [f"{run_id} stays: {reason}" for run_id, reason in deletion.kept.items()]
    if gone:
        messages.insert(0, f"deleted {_named(gone)}: u restores")
    kept = (*missing, *deletion.kept.items())
    return Outcome(tuple(run.id for run in gone), tuple(messages), refused=kept)


def _named(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


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

    def in_place_of(self, machine: str) -> "HerePlace":
        """What stands for a machine that is listed no more: nothing can be done there, nor here."""
        gone = copy(self)
        gone.name, gone.obstacle = machine, f"{machine} is listed no more"
        return gone

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Do something to runs."""

        def do() -> None:
            try:
                outcome = carry_out(self._state, action)
            except (FresnelError, OSError, ValueError) as error:
                runs: Runs = getattr(action, "runs", ())
                refused = tuple((run, sentence_of(error)) for run in runs)
                outcome = Outcome(problem=sentence_of(error), refused=refused)
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
            except (FresnelError, OSError, ValueError) as error:
                done(None, sentence_of(error))
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
        errors="replace",
        check=False,
    )
    return outcome_of(done.stdout, done.stderr, done.returncode)
