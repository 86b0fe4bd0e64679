"""What the launch form says while the plan of what was typed has not come yet."""

import threading
from typing import Any

import pytest
from textual.widgets import Static

from runners.state.layout import StateDirectory
from tests.screen_text import TYPE_A_COMMAND
from tests.ui.waiting import CEILING, until
from tui.panel.app import PanelApp
from tui.panel.widgets.launch.plan_view import PLANNING
from tui.views.runs import form_plan


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Plans come only while it is open, as on a machine that is busy."""
    gate, brings = threading.Event(), form_plan.form_plan

    def held(*given: Any) -> Any:
        assert gate.wait(CEILING)
        return brings(*given)

    monkeypatch.setattr(form_plan, "form_plan", held)
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xMI300X")
    return gate


def shown(app: PanelApp, name: str) -> str:
    return "\n".join(str(part.content) for part in app.screen.query(f"#{name}").results(Static))


async def test_what_was_wrong_with_the_form_goes_as_soon_as_it_is_mended(
    gate: threading.Event,
) -> None:
    app = PanelApp(StateDirectory().create())

    def says(name: str, text: str) -> bool:
        return text in shown(app, name)

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("n", "o", "w", "n", "enter")
        await until(pilot, lambda: says("outcome", TYPE_A_COMMAND))
        await pilot.press("l", "s")
        await until(pilot, lambda: says("outcome", PLANNING))
        assert not says("planned", TYPE_A_COMMAND)
        gate.set()
        await until(pilot, lambda: says("outcome", "✔"))
        assert not says("outcome", PLANNING)
        gate.clear()
        # A plan that was right stays to be read meanwhile.
        await pilot.press("space", "minus", "l")
        await until(pilot, lambda: says("outcome", PLANNING))
        assert says("outcome", "✔") and not says("planned", "ls -l")
        gate.set()
        await until(pilot, lambda: says("planned", "ls -l"))
        assert not says("outcome", PLANNING)
