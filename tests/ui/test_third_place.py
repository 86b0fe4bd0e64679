"""A third kind of place needs a row in the table of places, and nothing else."""

import pytest

from runners.model.states import State
from runners.places.actions import StopRuns
from runners.places.table import KINDS, KindRow
from runners.state.layout import StateDirectory
from tests.ui.fake_place import RUN, FakePlace
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.stop import StopScreen
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane


async def test_runs_of_a_third_kind_are_shown_followed_and_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(KINDS, "fake", KindRow("tests.ui.fake_place:FakeKind", lambda _: True))
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        pane, key = app.cockpit.query_one(RunPane), f"cluster/{RUN}"
        await until(pilot, lambda: key in pane.keys)
        pane.select(key)
        log = app.cockpit.query_one(LogArea).log_pane
        await until(pilot, lambda: "on the cluster" in str(log.reader.document.tail(5)))
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, StopScreen) and app.screen.is_mounted)
        await pilot.press("y")
        assert app.cockpit.remote.hosts is not None
        place = app.cockpit.remote.hosts.links.hosts["cluster"]
        assert isinstance(place, FakePlace)
        await until(pilot, lambda: place.done == [StopRuns((RUN,))])
        await until(
            pilot,
            lambda: pane.selected_row is not None and pane.selected_row.state is State.STOPPED,
        )
