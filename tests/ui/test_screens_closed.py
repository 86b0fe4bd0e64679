"""A page that was closed before the answer came that it had asked for: the panel goes on."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from textual.pilot import Pilot

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.places import PlaceOfRuns
from tui.panel.screens.help import HelpScreen
from tui.snapshot.questions import Question

TURNS = (0, 1, 2, 3, 5, 8, 20)
"""How often the panel's loop turns between Escape and the answer."""


async def leave(app: PanelApp, pilot: Pilot[None]) -> None:
    """Escape until the main screen is on top."""

    def left() -> bool:
        if app.screen is not app.cockpit:
            app.simulate_key("escape")
        return app.screen is app.cockpit

    await until(pilot, left)


async def lives(app: PanelApp, pilot: Pilot[None]) -> None:
    """The panel answers a key: its help comes and goes."""
    app.simulate_key("question_mark")
    await until(pilot, lambda: isinstance(app.screen, HelpScreen))
    await leave(app, pilot)


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        (Question.DETAILS, ("i",)),
        (Question.REMEDIES, ("d",)),
        (Question.COSTS, ("dollar_sign",)),
        (Question.PRICES, ("dollar_sign", "s")),
        (Question.UNFETCHED, ("dollar_sign", "g")),
    ],
)
async def test_an_answer_that_comes_after_its_page_was_closed_ends_nothing(
    cli: CommandLine, question: Question, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ended(cli.command("false"))
    asks, answers = PlaceOfRuns.ask, list[Callable[[], object]]()

    def held(self: PlaceOfRuns, place: Any, asked: Any, *rest: Any) -> None:
        arguments, kind, then, *failed = rest
        if asked is question:
            asks(self, place, asked, arguments, kind, lambda a: answers.append(partial(then, a)))
        else:
            asks(self, place, asked, arguments, kind, then, *failed)

    monkeypatch.setattr(PlaceOfRuns, "ask", held)
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and bool(app.snapshot.runs))
        for turns in TURNS:
            answers.clear()
            for key in keys:
                below = app.screen
                app.simulate_key(key)
                await until(pilot, lambda below=below: app.screen is not below)
            await until(pilot, lambda: bool(answers))
            app.simulate_key("escape")
            for _ in range(turns):
                await asyncio.sleep(0)
            app.call_later(answers[0])
            await leave(app, pilot)
        await lives(app, pilot)
