"""A page that is closed while a thread draws for it: what comes too late ends nothing."""

import asyncio
import threading
from typing import Any

import pytest

from runners.state.layout import StateDirectory
from tests.terminal import headless
from tests.ui.waiting import CEILING, until
from tui.panel.app import PanelApp
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.metrics import MetricsScreen
from tui.panel.widgets.metrics.chart_model import ChartModel


async def test_charts_that_come_while_the_page_is_closed_end_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headless("launch", "--gpus", "0", "--wait", "--", "echo", "loss 1")
    gate, begun, draw = threading.Event(), threading.Event(), ChartModel.draw

    def held(*given: Any) -> Any:
        begun.set()
        assert gate.wait(CEILING)
        return draw(*given)

    monkeypatch.setattr(ChartModel, "draw", held)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and app.snapshot.runs != ())
        for turns in range(40):
            gate.clear()
            begun.clear()
            app.simulate_key("m")
            await until(pilot, begun.is_set)
            app.simulate_key("escape")
            for _ in range(turns):
                await asyncio.sleep(0)
            gate.set()
            await until(pilot, lambda: not isinstance(app.screen, MetricsScreen))
        app.simulate_key("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
