"""Runs that ended long ago on a rented machine: as many as somebody looks for, and no more."""

import time

import msgspec

from runners.host.files import replace
from runners.places.ssh.older import MOST_OLDER
from runners.state.layout import StateDirectory
from tests.command_text import OLDER_ELSEWHERE
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.remote.test_cockpit_hosts import back, press
from tests.support import make_plan
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.dialogs import LineScreen, QuestionScreen
from tui.panel.widgets.runs import RunPane

_TOLD = 100
_RUNS = _TOLD + MOST_OLDER + 30


def make_ended(state: StateDirectory, name: str, age_s: float) -> str:
    """A run that has ended, as its supervisor leaves it; its id."""
    began = time.time() - age_s
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(began))}-{name}-7f3a"
    run = state.run(run_id)
    run.path.mkdir(parents=True)
    plan = msgspec.to_builtins(make_plan(run_id, name=name))
    plan["origin"] = {"user": "anna", "host": "rented", "boot_id": "b", "created": began}
    replace(run.plan, msgspec.json.encode(plan), sync=False)
    ending = {"state": "done", "started": began, "ended": began + 60, "exit_code": 0}
    replace(run.state, msgspec.json.encode({**ending, "host": "rented"}), sync=False)
    return run_id


async def test_older_runs_come_when_the_end_is_looked_at(
    line: CommandLine, rented: RentedMachine
) -> None:
    state = StateDirectory(rented.state).create()
    # The oldest first, as their ids are sorted.
    ids = [make_ended(state, f"n{i}", 100.0 * (_RUNS - i)) for i in range(_RUNS)]
    keys = [f"rented/{run_id}" for run_id in ids]
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(130, 30)) as pilot:
        pane = app.cockpit.query_one(RunPane)
        words = f"{MOST_OLDER + 30:,} older on other machines: G"
        await until(pilot, lambda: words in str(pane.border_subtitle))
        await until(pilot, lambda: len(pane.keys) == _TOLD)
        assert f"{_RUNS:,} in all" in str(pane.border_subtitle)

        await pilot.press("G")
        await until(pilot, lambda: len(pane.keys) == _TOLD + MOST_OLDER)
        await until(pilot, lambda: f"30 {OLDER_ELSEWHERE}" in str(pane.border_subtitle))
        assert keys[30] in pane.keys and keys[29] not in pane.keys

        pane.select(keys[40])
        await press(pilot, app, "t", LineScreen)
        await back(pilot, app, *"good", "enter")
        rows = app.cockpit.remote.open().links.hosts["rented"]
        await until(pilot, lambda: rows.older.runs[ids[40]].tags == ("good",))
        await press(pilot, app, "x", QuestionScreen)
        await back(pilot, app, "y")
        await until(pilot, lambda: keys[40] not in pane.keys)

        await pilot.press("slash", *"host:rented", "enter")
        await until(pilot, lambda: keys[0] in pane.keys)
        await until(pilot, lambda: OLDER_ELSEWHERE not in str(pane.border_subtitle))
        await until(pilot, lambda: len(pane.keys) == _RUNS - 1)
