"""All machines on one screen of the panel: their runs, logs and what is done there."""

from textual.widgets import Static

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.host_words import HostWordsScreen
from tui.panel.screens.hosts import HostsScreen
from tui.panel.widgets.log.area import LogArea


async def test_runs_of_a_rented_machine_are_watched_and_stopped(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = line.run(
        *("launch", "--gpus", "1", "--name", "far", "--host", "rented", "--"),
        *("sh", "-c", "while :; do echo loss 0.5; sleep 0.1; done"),
    ).stdout.strip()
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(110, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("H")
        await until(pilot, lambda: isinstance(app.screen, HostsScreen))
        screen = app.screen
        assert isinstance(screen, HostsScreen)
        await until(pilot, lambda: f"rented/{run}" in screen.ids)
        for _ in range(screen.ids.index(f"rented/{run}")):
            await pilot.press("down")
        log = screen.query_one(LogArea).log_pane
        await until(pilot, lambda: "loss 0.5" in str(log.reader.document.file.tail(5)))

        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, HostWordsScreen))
        words = app.screen.query_one("#words", Static)
        await until(pilot, lambda: "▶ running" in str(words.content))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("s")
        await until(pilot, lambda: app.screen is not screen)
        await pilot.press("y")
        await until(pilot, lambda: "■ stopped" in screen.shown_text)

        rented.wire.close()
        await until(pilot, lambda: "not reached since" in screen.shown_text)
        assert "■ stopped" in screen.shown_text
