"""A page that is closed while a thread draws for it: what comes too late ends nothing."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tests.terminal import headless
from tests.ui.waiting import CEILING, until
from tui.panel.app import PanelApp
from tui.panel.screens import gpu_detail
from tui.panel.screens.help import HelpScreen
from tui.panel.widgets.metrics.chart_model import ChartModel
from tui.panel.widgets.picture.picture_source import PictureSource

TURNS = (*range(9), 10, 13, 17, 24, 39)
"""Turns of the panel's loop between Escape and what comes: a page is closed within the first."""


async def test_charts_that_come_while_the_page_is_closed_end_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headless("launch", "--gpus", "0", "--wait", "--", "echo", "loss 1")
    await close_while_it_is_held(monkeypatch, ChartModel, "draw", "m")


async def test_readings_that_come_while_a_gpu_s_page_is_closed_end_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    headless("launch", "--gpus", "0", "--wait", "--", "true")
    await close_while_it_is_held(monkeypatch, gpu_detail, "read_recent", "1", "enter")


async def test_charts_that_are_written_hold_up_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    headless("launch", "--gpus", "0", "--wait", "--", "echo", "loss 1")
    await close_while_it_is_held(monkeypatch, ChartModel, "write", "m", "w")


async def test_pictures_that_are_looked_for_hold_up_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    headless("launch", "--gpus", "0", "--wait", "--", "true")
    headless("launch", "--gpus", "0", "--wait", "--", "true")
    for run in list_runs(StateDirectory()):
        image.new("RGB", (40, 20), "red").save(f"{run.directory}/curves.png")
    await close_while_it_is_held(monkeypatch, PictureSource, "find", "I", "b")


@pytest.mark.parametrize("held", ["find", "load"])
async def test_pictures_that_come_while_the_page_is_closed_end_nothing(
    held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")
    headless("launch", "--gpus", "0", "--wait", "--", "true")
    (run,) = list_runs(StateDirectory())
    image.new("RGB", (40, 20), "red").save(f"{run.directory}/curves.png")
    await close_while_it_is_held(monkeypatch, PictureSource, held, "I")


async def close_while_it_is_held(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *keys: str
) -> None:
    """Open the page by its keys and close it; what a thread does for it ends a little later."""
    gate, begun, do = threading.Event(), threading.Event(), getattr(owner, name)

    def held(*given: Any) -> Any:
        begun.set()
        assert gate.wait(CEILING)
        return do(*given)

    monkeypatch.setattr(owner, name, held)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and app.snapshot.runs != ())
        await until(pilot, lambda: app.snapshot is not None and app.snapshot.reading is not None)
        for turns in TURNS:
            gate.clear()
            begun.clear()
            for key in keys:
                app.simulate_key(key)
            await until(pilot, begun.is_set)
            app.simulate_key("escape")
            for _ in range(turns):
                await asyncio.sleep(0)
            if len(keys) > 1:
                await until(pilot, lambda: app.screen is app.cockpit)
            gate.set()
            await until(pilot, lambda: app.screen is app.cockpit)
        app.simulate_key("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
