"""A part of the matrix of keys; all of it: `python -m tests.ui.key_matrix`."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from runners.state.layout import StateDirectory
from tests.process.conftest import end_everything
from tests.support import CEILING_S
from tests.ui.key_matrix import Found, drive, make_busy, make_runs
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.metrics import MetricsScreen
from tui.panel.widgets.log.pane import LogPane


@pytest.mark.parametrize(
    ("count", "places"), [(0, ["command log", "help", "machines"]), (1, ["sort"])]
)
async def test_every_key_does_something_or_says_why_not(
    count: int, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    monkeypatch.chdir(StateDirectory().create().root)  # keys write files there
    state: Path = StateDirectory().create().root
    make_runs(state, count)
    found = Found()
    await drive(state, count, (80, 24), places, found)
    assert found.cells and not found.silent and not found.stuck and not found.unexplained


async def test_every_key_of_what_is_about_live_runs_gpus_and_machines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xMI300X")
    state: Path = StateDirectory().create().root
    monkeypatch.chdir(state)
    make_busy(state, sleepers=2)
    found = Found()
    places = ["GPU details", "guard form", "choice of machine", "stop dialog"]
    await drive(state, 0, (80, 24), places, found)
    end_everything(StateDirectory())
    assert found.cells > len(places)
    assert not found.silent and not found.stuck and not found.unexplained and not found.closed


def test_what_the_keys_are_pressed_on_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    with pytest.raises(AssertionError, match="sleeper-0"):
        make_busy(StateDirectory().create().root, sleepers=1)


@asynccontextmanager
async def panel_with_a_run(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pilot[Any]]:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    state = StateDirectory().create()
    make_runs(state.root, 1)
    app = PanelApp(state)
    async with app.run_test(size=(120, 40)) as pilot:
        until = time.monotonic() + CEILING_S
        while app.snapshot is None or not app.snapshot.runs:
            assert time.monotonic() < until
            await pilot.pause(0.05)
        yield pilot


async def test_keys_without_anything_to_change_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with panel_with_a_run(monkeypatch) as pilot:
        app, silent = pilot.app, []
        runs, page = ("o", "f", "F"), ("J", "]", "[", ",", ".", "0", "-", "a")
        for way, keys in (("2", runs), ("1", ("enter",)), ("3", ("W",)), ("m", page)):
            await pilot.press(way)
            await until_drawn(pilot)
            for key in keys:
                app.clear_notifications()
                await pilot.press(key)
                await pilot.pause()
                silent += [] if app._notifications else [(way, key)]
        assert not silent


async def test_a_view_that_cannot_be_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with panel_with_a_run(monkeypatch) as pilot:
        (panel := StateDirectory().panel).unlink(missing_ok=True)
        panel.mkdir()  # even root writes no file there
        await pilot.press("V", "s", *"mine", "enter")
        await until(pilot, lambda: bool(pilot.app._notifications))
        assert str(panel) in next(iter(pilot.app._notifications)).message


async def test_esc_out_of_a_zoomed_log_shows_the_pinned_one_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with panel_with_a_run(monkeypatch) as pilot:
        await pilot.press("vertical_line")
        await pilot.press("3", "z")
        logs = list(pilot.app.screen.query(LogPane))
        await until(pilot, lambda: sorted(log.is_on_screen for log in logs) == [False, True])
        await pilot.press("escape")
        await until(pilot, lambda: all(log.is_on_screen for log in logs))


async def until_drawn(pilot: Pilot[Any]) -> None:
    """The metrics page, where it is open, has its charts."""
    await pilot.pause()
    until = time.monotonic() + CEILING_S
    while isinstance(screen := pilot.app.screen, MetricsScreen) and not screen._page:
        assert time.monotonic() < until
        await pilot.pause(0.05)
