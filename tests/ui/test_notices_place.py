"""Where notices stand: never over a dialog's title, first line or buttons, nor a log's last lines."""

import time
from typing import Any

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Button

from runners.state.layout import StateDirectory
from tests.support import CEILING_S
from tests.ui.key_matrix import SIZES, make_runs
from tui.panel.app import PanelApp
from tui.panel.widgets.log.pane import LogPane

LINE = "the selected run has ended already"
PARAGRAPH = "no such file: /data/missing/train/images, and more of what was not found " * 3
WAYS = {
    "launch form": ("n",),
    "money": ("dollar_sign",),
    "guard form": ("dollar_sign", "g"),
    "machines": ("H",),
    "help": ("question_mark",),
    "note": ("N",),
    "delete": ("x",),
    "rename": ("R",),
    "sort": ("O",),
}


async def _told(pilot: Pilot[Any], text: str, times: int) -> list[Region]:
    """Where the notices stand that say this."""
    pilot.app.clear_notifications()
    await pilot.pause()
    for number in range(times):
        pilot.app.notify(f"{number} {text}", timeout=600)
    until = time.monotonic() + CEILING_S
    while True:
        toasts = [toast for toast in pilot.app.screen.query("Toast") if toast.region.height]
        regions = [toast.region for toast in toasts]
        await pilot.pause(0.05)
        if len(toasts) == times and regions == [toast.region for toast in toasts]:
            seen = [pilot.app.screen.find_widget(toast).visible_region for toast in toasts]
            return [region for region in seen if region.height]
        assert time.monotonic() < until


def _kept_free(pilot: Pilot[Any]) -> dict[str, Region]:
    """What of the dialog is never to be covered."""
    dialog = pilot.app.screen.query(".dialog").first()
    title = Region(dialog.region.x, dialog.region.y, dialog.region.width, 2)
    buttons = {str(button.label): button.region for button in pilot.app.screen.query(Button)}
    return {"title, first line": title, **buttons}


@pytest.mark.parametrize("size", SIZES)
async def test_no_notice_covers_what_is_asked_or_the_answers(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    state = StateDirectory().create()
    make_runs(state.root, 1)
    app = PanelApp(state)
    covered = []
    async with app.run_test(size=size, notifications=True) as pilot:
        until = time.monotonic() + CEILING_S
        while app.snapshot is None or not app.snapshot.runs:
            assert time.monotonic() < until
            await pilot.pause(0.05)
        for name, way in WAYS.items():
            for key in way:
                await pilot.press(key)
                await pilot.pause()
            for text, times in ((LINE, 1), (PARAGRAPH, 1), (LINE, 3)):
                toasts = await _told(pilot, text, times)
                assert toasts
                covered += [
                    (name, what, times, len(text))
                    for what, region in _kept_free(pilot).items()
                    for toast in toasts
                    if region.overlaps(toast)
                ]
            app.clear_notifications()
            while app.screen is not app.cockpit:
                await pilot.press("escape")
                await pilot.pause()
    assert not covered


@pytest.mark.parametrize("size", SIZES)
async def test_no_notice_covers_the_last_lines_of_a_log(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        for keys in ((), ("3", "z")):
            for key in keys:
                await pilot.press(key)
            for text, times in ((LINE, 1), (PARAGRAPH, 1), (LINE, 5)):
                toasts = await _told(pilot, text, times)
                log = app.screen.query_one(LogPane).region
                last = Region(log.x, log.bottom - 5, log.width, 5)
                assert not [toast for toast in toasts if last.overlaps(toast)]
