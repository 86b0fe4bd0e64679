"""A notice stands on the screen once, whatever is opened above it."""

from textual.pilot import Pilot

from runners.state.layout import StateDirectory
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.cockpit.screen import CockpitScreen

NOTICE = "something has been done"


def times_shown(pilot: Pilot[None]) -> int:
    """On how many of the screens that are seen through each other."""
    toasts = [toast for screen in pilot.app.screen_stack for toast in screen.query("Toast")]
    return sum(toast.visible and bool(toast.region) for toast in toasts)


async def test_a_dialog_takes_it_over_and_gives_it_back() -> None:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        app.notify(NOTICE, timeout=600)
        await until(pilot, lambda: times_shown(pilot) == 1)
        await pilot.press("c")
        await until(pilot, lambda: any(toast.region for toast in app.screen.query("Toast")))
        await until(pilot, lambda: len(app.screen_stack) == 2 and times_shown(pilot) == 1)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, CockpitScreen))
        await until(pilot, lambda: times_shown(pilot) == 1)
