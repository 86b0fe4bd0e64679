"""The launch form closed while it is still being filled: at every moment, and the panel lives."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from runners.lifecycle.control import start as control_start
from runners.model.errors import WrongInput
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import make_run
from tests.ui.waiting import CEILING, until
from tui.panel.app import PanelApp
from tui.panel.screens import launch
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.launch import LaunchScreen
from tui.panel.widgets.launch.fields import FormField
from tui.panel.widgets.launch.form import LaunchForm
from tui.panel.widgets.launch.plan_view import PlanView
from tui.views.runs import form_plan, launch_choices
from tui.views.runs.launch_choices import LaunchChoice

TURNS = (0, 1, 2, 4, 7, 11, 20, 40)
"""Turns of the panel's loop between the form and Escape: from nothing to its first fields."""


def works_on(app: PanelApp, group: str) -> bool:
    """Whether the form reads presets, or makes a plan, in a thread."""
    return any(worker.group == group and worker.is_running for worker in app.workers)


def form(app: PanelApp) -> LaunchScreen | None:
    """The form, wherever it stands among the screens."""
    return next((one for one in app.screen_stack if isinstance(one, LaunchScreen)), None)


def closed(app: PanelApp) -> bool:
    """Whether the form is gone; where it still stands, Escape is pressed again."""
    if form(app) is None:
        return True
    app.simulate_key("escape")
    return False


@pytest.fixture
def app(presets: Path, monkeypatch: pytest.MonkeyPatch) -> PanelApp:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xMI300X")
    for name in ("aa", "bb", "cc"):
        text = "launcher: command\ncommand: [sleep, '300']\ngpus: 2\nparameters: {x: 1}\n"
        (presets / f"{name}-sleep.yaml").write_text(text)
    return PanelApp(StateDirectory().create())


async def lives(app: PanelApp, pilot: Pilot[None]) -> None:
    """The panel answers a key: its help comes and goes."""
    await until(pilot, lambda: form(app) is None)
    app.simulate_key("question_mark")
    await until(pilot, lambda: isinstance(app.screen, HelpScreen))
    app.simulate_key("escape")
    await until(pilot, lambda: not isinstance(app.screen, HelpScreen))


async def test_closed_at_any_turn_of_its_loop_the_panel_goes_on(app: PanelApp) -> None:
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        for turns in TURNS:
            app.simulate_key("n")
            await until(pilot, lambda: form(app) is not None)
            for _ in range(turns):
                await asyncio.sleep(0)
            app.simulate_key("escape")
            app.simulate_key("escape")
            await until(pilot, lambda: closed(app))
        await lives(app, pilot)


@pytest.mark.parametrize("group", ["choices", "plan"])
async def test_what_a_thread_brings_while_the_form_is_closed_ends_nothing(
    app: PanelApp, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    module, name = {
        "choices": (launch_choices, "read_choices"),
        "plan": (form_plan, "form_plan"),
    }[group]
    brings, kept = getattr(module, name), []

    def held(*given: Any) -> Any:
        kept[:] = kept or [brings(*given)]
        assert gate.wait(CEILING)
        return kept[0]

    monkeypatch.setattr(module, name, held)
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        for turns in (0, 1, 2, 3, 5, 8):
            gate.clear()
            app.simulate_key("n")
            await until(pilot, lambda: works_on(app, group))
            app.simulate_key("escape")
            for _ in range(turns):
                await asyncio.sleep(0)
            gate.set()
            await until(pilot, lambda: closed(app) and not works_on(app, group))
        await lives(app, pilot)


async def test_enter_typed_before_the_presets_were_read_goes_on_to_the_form(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, read = threading.Event(), launch_choices.read_choices

    def held(*given: Any) -> Any:
        gate.wait(CEILING)
        return read(*given)

    monkeypatch.setattr(launch_choices, "read_choices", held)
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("n")
        await until(pilot, lambda: form(app) is not None)
        await pilot.press(*"bb-sl", "enter")
        gate.set()
        await until(pilot, lambda: isinstance(app.focused, Input) and app.focused.value == "1")


async def test_a_late_plan_and_a_last_key_while_the_form_is_taken_apart_end_nothing(
    app: PanelApp,
) -> None:
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("n", *"bb-sl")
        await until(pilot, lambda: form(app) is not None)
        view = app.screen.query_one(PlanView)
        await until(pilot, lambda: view._outcome is not None)
        field = app.screen.query(FormField).first()
        app.simulate_key("escape")
        app.simulate_key("escape")
        while view.is_attached or field.is_attached:
            view._say_planning()
            field.mark()
            await asyncio.sleep(0)
        view._say_planning()
        await lives(app, pilot)


async def test_what_is_refused_stands_in_the_form_again_until_it_is_launched(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems, launched = [WrongInput("no such data")], []

    def start(state: StateDirectory, specs: Any) -> Any:
        if problems:
            raise problems.pop()
        launched.append(specs)
        return [make_run(State.RUNNING)]

    monkeypatch.setattr(control_start, "start_together", start)

    async def press(pilot: Pilot[None], *keys: str) -> None:
        """In the form, at the only field of the preset."""
        await pilot.press("n")
        await until(pilot, lambda: form(app) is not None)
        await pilot.press(*keys)
        await until(pilot, lambda: isinstance(app.focused, Input) and app.focused.id != "filter")

    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await press(pilot, *"bb-sl", "enter")
        await pilot.press("4", "2", "f2")
        await until(pilot, lambda: form(app) is None and not problems)
        await press(pilot, "enter")
        assert isinstance(app.focused, Input) and app.focused.value == "42"
        await pilot.press("f2")
        await until(pilot, lambda: form(app) is None and bool(launched))
        await pilot.press("n")
        await until(pilot, lambda: app.screen.query_one(LaunchForm).single is not None)
        assert app.screen.query_one(LaunchForm).typed() == {}


async def test_a_held_arrow_fills_the_form_where_it_stops(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form takes longer to fill than a key to repeat."""
    filled: list[str] = []
    gate, load = asyncio.Event(), LaunchForm.load

    async def held_up(widget: LaunchForm, choice: LaunchChoice, *more: Any) -> None:
        filled.append(choice.entry.name)
        await gate.wait()
        await load(widget, choice, *more)

    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        monkeypatch.setattr(LaunchForm, "load", held_up)
        app.simulate_key("n")
        await until(pilot, lambda: bool(filled))
        screen = form(app)
        assert screen is not None
        names = screen.presets.query_one(OptionList)
        for row in range(4):
            names.highlighted = row
            for _ in range(100):
                await asyncio.sleep(0)
        assert len(filled) == 1
        gate.set()
        await until(pilot, lambda: screen.choice == screen.presets.choice)
        assert len(filled) <= 3 and filled[-1] == screen.presets.choice.entry.name


async def test_a_gpu_that_comes_free_while_the_form_is_filled_ends_nothing(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, load = asyncio.Event(), LaunchForm.load

    async def held_up(widget: LaunchForm, *given: Any) -> None:
        await gate.wait()
        await load(widget, *given)

    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        monkeypatch.setattr(LaunchForm, "load", held_up)
        monkeypatch.setattr(launch, "holders_of", lambda _: object())
        app.simulate_key("n")
        await until(pilot, lambda: form(app) is not None and form(app).choice is not None)
        screen = form(app)
        assert screen is not None and app.snapshot is not None
        asked: list[int] = []
        monkeypatch.setattr(
            screen.planner, "plan", lambda request, *_: asked.append(len(request.specs))
        )
        screen.show(app.snapshot)
        gate.set()
        await until(pilot, lambda: bool(asked))
        assert 0 not in asked
