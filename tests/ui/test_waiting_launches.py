"""A launch that waits for one of several machines is a row of the run table, and ends by its key."""

import pytest

from runners.model.states import State
from runners.places.fleet import place as fleet_place
from runners.places.fleet.waiting import cancelled_at, new_launch, save_launch
from runners.state.layout import StateDirectory
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.stop import StopScreen
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane


async def test_it_is_shown_with_its_reason_and_taken_out_of_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody looks for machines here.
    monkeypatch.setattr(fleet_place, "start_dispatcher", lambda state: None)
    monkeypatch.setattr("tui.panel.cockpit.hosts.start_dispatcher", lambda state: None)
    state = StateDirectory().create()
    launch = new_launch(("launch", "--name", "large", "--", "true"), "any", True, {})
    save_launch(state, launch)
    app = PanelApp(state)
    async with app.run_test(size=(120, 30)) as pilot:
        pane, key = app.cockpit.query_one(RunPane), f"any/{launch.id}"
        await until(pilot, lambda: key in pane.keys)
        pane.select(key)
        row = pane.selected_row
        assert row is not None
        assert (row.name, row.state) == ("large", State.QUEUED)
        log = app.cockpit.query_one(LogArea).log_pane
        await until(pilot, lambda: row.remark in str(log.reader.document.tail(5)))
        await pilot.press("h")
        assert app.cockpit.remote.where == "", "it is no machine"
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, StopScreen) and app.screen.is_mounted)
        await pilot.press("y")
        await until(pilot, lambda: cancelled_at(state, launch))
