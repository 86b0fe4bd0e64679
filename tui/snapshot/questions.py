"""What a front end asks of runs and money, answered where they are: here, or by an agent there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from runners.model.closed import assert_never
from runners.model.errors import NotFound
from runners.model.gpus import GpuReading
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.state.layout import StateDirectory
from runners.state.leases import Lease, held_leases
from runners.state.runs import find_run, list_runs
from tui.views.runs.run_view import RunView, view_run

MOST_IMAGE_BYTES = 8 << 20
"""A larger image file is not sent over a line."""


class Question(str, Enum):
    """What can be asked; the words behind each are ids of runs, of an image also its path.

    Costs, prices and what is not fetched are the machine's: there are no words behind them.
    """

    VIEW = "view"
    DETAILS = "details"
    REMEDIES = "remedies"
    STACKS = "stacks"
    COMPARISON = "comparison"
    PICTURES = "pictures"
    IMAGE = "image"
    COSTS = "costs"
    PRICES = "prices"
    UNFETCHED = "unfetched"
    WITHDRAW = "withdraw"
    """A launch by its request's name: it makes no run from now on. Which has it made?"""


class Withdrawn(msgspec.Struct, frozen=True):
    """The runs that a request had made before it was withdrawn; none: it will make none."""

    runs: list[str]


class LaunchQuestion(str, Enum):
    """What the launch form asks of another machine.

    Behind a plan and checks stand the words of the command that launches, behind the old choices
    a run's id.
    """

    CHOICES = "choices"
    AGAIN = "again"
    RESUME = "resume"
    PLAN = "plan"
    CHECKS = "checks"
    """What the checks that a launch makes would refuse."""
    VERIFY = "verify"


def answer(
    state: StateDirectory,
    question: Question,
    subjects: Sequence[str],
    known: Sequence[RunView] = (),
    leases: Mapping[str, list[Lease]] | None = None,
) -> msgspec.Struct:
    """The answer, read from this machine's state folder; `known` are live runs that were followed.

    Raises NotFound for a run that is gone, OSError for files that cannot be read or written.
    """
    if (
        question is Question.COSTS
        or question is Question.PRICES
        or question is Question.UNFETCHED
        or question is Question.WITHDRAW
    ):
        return _answer_without_run(state, question, subjects)
    run = find_run(state, subjects[0])
    if question is Question.VIEW:
        return _view(run, known, thorough=False)
    if question is Question.DETAILS:
        from tui.views.runs.run_details import read_details

        live = known or [
            view_run(other, brief=True) for other in list_runs(state, 0) if other.is_live
        ]
        held = held_leases(state) if leases is None else leases
        return read_details(_view(run, known, thorough=True), state, live, held)
    if question is Question.REMEDIES:
        from tui.views.health.remedy_offer import offer_remedies

        return offer_remedies(state, run)
    if question is Question.STACKS:
        from tui.views.health.stack_text import read_stacks

        return read_stacks(state, run)
    if question is Question.COMPARISON:
        from tui.views.runs.run_facts import compared_facts

        return compared_facts(state, [find_run(state, word) for word in subjects])
    from tui.views.metrics import picture_file

    if question is Question.PICTURES:
        return picture_file.found_pictures(run)
    if question is Question.IMAGE:
        return picture_file.read_image(run, Path(subjects[1]), MOST_IMAGE_BYTES)
    return assert_never(question)  # type: ignore[unreachable]


def answer_launch(
    state: StateDirectory,
    question: LaunchQuestion,
    specs: Sequence[RunSpec],
    reading: GpuReading | None,
    runs: Sequence[RunView],
) -> msgspec.Struct:
    """The answer here, about `specs`, or what there is to launch beside these `runs`.

    Raises what a launch of them raises.
    """
    if question is LaunchQuestion.CHOICES:
        from tui.views.runs.launch_choices import LaunchChoices, read_choices

        return LaunchChoices(tuple(read_choices(reading, runs)))
    if question is LaunchQuestion.PLAN:
        from tui.views.runs.form_plan import form_plan

        return form_plan(state, specs)
    if question is LaunchQuestion.CHECKS:
        from tui.views.runs.form_plan import launch_checks

        return launch_checks(state, specs)
    from runners.verify.verify import verify
    from tui.views.health.verification_text import Verifications

    return Verifications(verify(state, specs))


def _answer_without_run(
    state: StateDirectory, question: Question, subjects: Sequence[str]
) -> msgspec.Struct:
    """The answer to what is asked of the machine itself."""
    if question is Question.COSTS:
        from tui.views.money.cost_report import read_page

        return read_page(state)
    if question is Question.PRICES:
        from tui.views.money.session_offer import offer_session

        return offer_session(state)
    if question is Question.UNFETCHED:
        from runners.lifecycle.control.fetched import (
            Unfetched,
            removed_unfetched,
            unfetched_runs,
        )

        return Unfetched([run.id for run in unfetched_runs(state)], removed_unfetched(state))
    from runners.state.requests import withdraw

    return Withdrawn(withdraw(state, subjects[0]))


def _view(run: Run, known: Sequence[RunView], thorough: bool) -> RunView:
    """What lives and was followed since it began says more than one look."""
    if not Path(run.directory).is_dir():
        raise NotFound(f"{run.id} has been removed")
    for view in known:
        if view.run.id == run.id and view.run.is_live:
            return view
    return view_run(run, thorough=thorough, now=time.time())
