"""Where the cursor of the run table is: it moves by keys, and once to a run that was launched."""

import time

import pytest
from textual.pilot import Pilot

from runners.lifecycle.control.labels import tag
from runners.lifecycle.control.trash import delete
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.ui.test_run_table import HOUR, ended
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.widgets.runs import RunPane

RUNS = 40


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> PanelApp:
    """A panel with runs that have ended, the newest first: run-00, run-01 …"""
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    state, now = StateDirectory().create(), time.time()
    for number in range(RUNS):
        ended(state, f"run-{number:02}", (number + 1) * HOUR, now)
    return PanelApp(state)


async def listed(app: PanelApp, pilot: Pilot[None]) -> RunPane:
    """The table, once every run is in it."""
    pane = app.cockpit.query_one(RunPane)
    await until(pilot, lambda: len(pane.keys) == RUNS)
    return pane


async def shown_anew(app: PanelApp, pilot: Pilot[None]) -> None:
    """Return once another snapshot was taken in."""
    before = app.snapshot
    app.feed.refresh_now()
    await until(pilot, lambda: app.snapshot is not before)


def name(pane: RunPane) -> str:
    return pane.selected_row.name if pane.selected_row is not None else ""


async def test_a_run_that_is_deleted_leaves_the_cursor_in_its_place(app: PanelApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await listed(app, pilot)
        pane.select(pane.keys[20])
        gone = [read_run(app.state, key) for key in pane.keys[20:22]]
        delete(app.state, gone)
        await until(pilot, lambda: len(pane.keys) == RUNS - 2)
        assert name(pane) == "run-22"
        await until(pilot, lambda: "run-22" in str(app.cockpit.area.log_pane.border_title))
        pane.select(pane.keys[-1])
        delete(app.state, [read_run(app.state, pane.keys[-1])])
        await until(pilot, lambda: len(pane.keys) == RUNS - 3)
        assert name(pane) == "run-38"


async def test_a_launched_run_that_comes_into_sight_late_takes_no_cursor_away(
    app: PanelApp,
) -> None:
    """Hidden by the filter, it did minutes later: whatever key was pressed then was its."""
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await listed(app, pilot)
        wanted, *others = [read_run(app.state, key) for key in pane.keys[:6]]
        for run in others:
            tag(app.state, run, ("good",))
        await pilot.press(*"/tag:good", "enter")
        await until(pilot, lambda: len(pane.keys) == 5)
        app.cockpit.select_when_present(wanted.id)
        await shown_anew(app, pilot)
        await pilot.press("j", "j")
        chosen = name(pane)
        tag(app.state, wanted, ("good",))
        await until(pilot, lambda: wanted.id in pane.keys)
        await shown_anew(app, pilot)
        assert name(pane) == chosen


async def test_a_screen_further_on_while_a_filter_is_typed_is_gone_to(app: PanelApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await listed(app, pilot)
        await pilot.press(*"/run", "pagedown")
        chosen = name(pane)
        assert chosen != "run-00"
        await shown_anew(app, pilot)
        assert name(pane) == chosen


async def test_marked_runs_that_are_gone_are_marked_no_longer(app: PanelApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await listed(app, pilot)
        await pilot.press("space", "space")
        delete(app.state, [read_run(app.state, pane.keys[0])])
        await until(pilot, lambda: len(pane.keys) == RUNS - 1)
        assert [row.name for row in pane.chosen] == ["run-01"]
        assert "1 marked" in str(pane.border_subtitle)
