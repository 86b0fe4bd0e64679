"""Keys act in the order in which they were typed, however long each takes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from runners.state.layout import StateDirectory
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.launch import LaunchScreen
from tui.panel.terminal.key_order import InOrder
from tui.panel.widgets.launch.fields import FormField

TURNS = 300
"""Of the application's loop: more than a key takes whose target is not held up."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the application would wait for by the clock is over at once."""

    def set_timer(
        app: InOrder, delay: float, callback: Callable[[], Any], **_: Any
    ) -> SimpleNamespace:
        app.call_later(callback)
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr(InOrder, "set_timer", set_timer)


class TwoFields(InOrder):
    """Two lines to type in."""

    def compose(self) -> ComposeResult:
        yield Input(id="first")
        yield Input(id="second")


async def turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


@asynccontextmanager
async def typed(*keys: str) -> AsyncIterator[tuple[Pilot[None], Input, Input, asyncio.Event]]:
    """Keys typed into the first of two fields, which is held up until the event is set."""
    app = TwoFields()
    async with app.run_test() as pilot:
        first, second = app.query_one("#first", Input), app.query_one("#second", Input)
        await until(pilot, lambda: first.has_focus)
        gate = asyncio.Event()
        first.call_later(gate.wait)
        for key in keys:
            app.simulate_key(key)
        await turn()
        yield pilot, first, second, gate


@pytest.mark.usefixtures("hurried")
async def test_a_key_waits_until_the_one_before_has_come_up() -> None:
    async with typed("a", "tab", "b") as (pilot, first, second, gate):
        gate.set()
        await until(pilot, lambda: len(first.value + second.value) == 2)
        assert (first.value, second.value) == ("a", "b")


async def test_a_key_whose_target_is_gone_holds_up_no_other() -> None:
    async with typed("a") as (pilot, first, second, gate):
        removed = first.remove()
        second.focus()
        pilot.app.simulate_key("b")
        gate.set()
        await removed
        await until(pilot, lambda: second.value == "b")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("delayed", [OptionList, LaunchScreen])
async def test_what_is_typed_behind_enter_waits_for_its_field(
    presets: Path, monkeypatch: pytest.MonkeyPatch, delayed: type[OptionList | LaunchScreen]
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    text = "launcher: command\ncommand: [sleep, '300']\nparameters: {x: 1}\n"
    (presets / "aa-sleep.yaml").write_text(text)
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        app.simulate_key("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        await until(pilot, lambda: bool(screen.query(FormField)) and not screen._is_filling)
        gate = asyncio.Event()
        held = screen if delayed is LaunchScreen else screen.query_one(OptionList)
        held.call_later(gate.wait)
        for key in (*"own", "enter", *"echo"):
            app.simulate_key(key)
        await turn()
        gate.set()

        def command() -> str:
            fields = [field for field in screen.query(FormField) if field.key == "command"]
            return fields[0].value if fields else ""

        await until(pilot, lambda: command() == "echo")
        assert screen.query_one("#filter", Input).value == "own"


@pytest.mark.parametrize("text", ["\none\n  two \n", "one\r\ntwo"])
async def test_a_line_takes_all_lines_that_are_pasted(text: str) -> None:
    app = TwoFields()
    async with app.run_test() as pilot:
        first = app.query_one("#first", Input)
        await until(pilot, lambda: first.has_focus)
        app.post_message(events.Paste(text))
        await until(pilot, lambda: first.value == "one two")
