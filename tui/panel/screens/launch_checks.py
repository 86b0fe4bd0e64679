"""The checks of the launch, asked by the form: one question at a time, the newest request last."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.text import Text
from textual.screen import Screen
from textual.widgets import Static

from runners.model.masking import mask_text
from tui.panel.launch_planner import LaunchPlanner, LaunchRequest
from tui.panel.screens.dialogs import is_open
from tui.panel.screens.launch_plan_text import REFUSED_KEYS
from tui.panel.widgets.launch.plan_view import PlanView
from tui.snapshot.questions import LaunchQuestion
from tui.views.runs.form_plan import LaunchChecks
from tui.views.safe import safe

LAUNCHED_WHEN_CHECKED = "checking what the preset asks for; launched when it has passed"
CHANGED_MEANWHILE = "not launched: something else was done before it was checked; F2 launches it"


def refusal_notice(found: LaunchChecks) -> str:
    """Why a launch from the form was refused, and its keys that go on from there."""
    lines = (f"{found.name}: {found.problem}", found.advice, REFUSED_KEYS)
    return safe(mask_text("\n".join(filter(None, lines))))


class FormChecks:
    """What the form on `screen` does about checks: shows them beside a plan, asks before a launch.

    `launch` starts a request, `replan` plans anew what stands in the form.
    """

    def __init__(
        self,
        screen: Screen[Any],
        launch: Callable[[LaunchRequest], None],
        replan: Callable[[], None],
    ) -> None:
        self._screen, self._launch, self._replan = screen, launch, replan
        self._questions = CheckQuestions()
        self._passed = 0
        """The plan whose checks have passed."""
        self._newest = 0
        self._is_launching = False
        """What was launched is still being checked."""

    def check(
        self,
        planner: LaunchPlanner,
        request: LaunchRequest,
        number: int,
        outcome: Callable[[LaunchChecks], Text],
    ) -> None:
        """Have the plan of this `number` checked, and show its `outcome` by what was found."""
        if not self._is_launching:
            self._newest = number
            self._questions.ask(planner, request, partial(self._take, number, outcome))

    def change(self) -> None:
        """Something else stands in the form: what was checked is not it."""
        self._newest = self._passed = 0
        if self._is_launching:
            self._is_launching = False
            self._help("")
            self._screen.notify(CHANGED_MEANWHILE, timeout=4)

    def launch(self, planner: LaunchPlanner, request: LaunchRequest, number: int) -> None:
        """Launch what passes its checks; else it stays, to be mended or to be forced (F7)."""
        passed = self._passed == number or planner.is_example
        if passed or not any(spec.verify for spec in request.specs):
            self.start(request)
            return
        self._is_launching = True
        self._help(LAUNCHED_WHEN_CHECKED)
        self._questions.ask(planner, request, partial(self._decide, request))

    def start(self, request: LaunchRequest) -> None:
        """Launch it; not while another page lies above the form.

        It would stay open below that, to be launched once more.
        """
        if self._screen.app.screen is self._screen:
            self._launch(request)
        else:
            self._help(CHANGED_MEANWHILE)

    def _take(
        self, number: int, outcome: Callable[[LaunchChecks], Text], found: LaunchChecks
    ) -> None:
        if number == self._newest and is_open(self._screen):
            self._passed = 0 if found.problem else number
            self._screen.query_one(PlanView).show_outcome(outcome(found))

    def _decide(self, request: LaunchRequest, found: LaunchChecks) -> None:
        if not is_open(self._screen) or not self._is_launching:
            return
        self._is_launching = False
        if not found.problem:
            self.start(request)
            return
        self._help("")
        notice = refusal_notice(found)
        self._screen.notify(notice, title="not launched", severity="error", markup=False)
        self._replan()

    def _help(self, text: str) -> None:
        self._screen.query_one("#fieldhelp", Static).update(Text(text, style="yellow"))


class CheckQuestions:
    """Asks a machine what its checks will say; what is no longer wanted is not told.

    A check may open data and import torch: the next one begins when it is done.
    """

    def __init__(self) -> None:
        self._asked: LaunchPlanner | None = None
        """Who has not answered yet."""
        self._wanted: tuple[LaunchRequest, Callable[[LaunchChecks], None]] | None = None

    def ask(
        self, planner: LaunchPlanner, request: LaunchRequest, then: Callable[[LaunchChecks], None]
    ) -> None:
        """Ask about `request`, in place of what was asked before."""
        self._wanted = (request, then)
        if self._asked is not planner:
            self._send(planner)

    def _send(self, planner: LaunchPlanner) -> None:
        assert self._wanted is not None
        self._asked, request = planner, self._wanted[0]
        done = partial(self._take, planner, request)
        failed = partial(self._take_problem, planner, request)
        planner.ask(LaunchQuestion.CHECKS, request, done, failed)

    def _take_problem(self, planner: LaunchPlanner, request: LaunchRequest, problem: str) -> None:
        self._take(planner, request, LaunchChecks(unknown=problem))

    def _take(self, planner: LaunchPlanner, request: LaunchRequest, found: LaunchChecks) -> None:
        if self._asked is not planner:
            return
        self._asked = None
        if self._wanted is None:
            return
        if self._wanted[0] is request:
            self._wanted[1](found)
        else:
            self._send(planner)
