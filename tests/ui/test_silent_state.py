"""The state folder is on a file server that stops answering while the panel is open."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.process.conftest import end_everything
from tests.screen_text import NO_RUNS
from tests.silence import silent_folder
from tests.terminal import panel_command
from tests.ui.tmux import Tmux
from tui.panel.terminal import driver

PROMPT = "ready>"
MODES = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_sgr_flag} #{mouse_all_flag}"
TOLD = "does not answer: q leaves"

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")


@pytest.fixture
def window(tmp_path: Path, presets: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tmux]:
    """A shell in which the panel was opened."""
    monkeypatch.setenv("HOME", str(tmp_path))
    StateDirectory().root.mkdir(parents=True, exist_ok=True)
    shell = ("bash", "--norc", "--noprofile", "-i")
    opened = Tmux(tmp_path, shell, 80, 24, PS1=f"{PROMPT} ", FRESNEL_GPUS="sim:2xH100")
    opened.press(f"stty -a > {tmp_path}/before; {' '.join(panel_command())}", "Enter")
    opened.wait_for(NO_RUNS)
    yield opened
    opened.close()
    end_everything(StateDirectory())


def test_whoever_types_is_told_and_can_leave(window: Tmux, tmp_path: Path) -> None:
    """The terminal is given back as it was."""
    with silent_folder(StateDirectory().root):
        window.press("n")
        window.wait_for(TOLD)
        window.press("q")
        window.wait_for(PROMPT)
        assert window.ask(MODES) == "0 1 0 0 0"
    window.press(f"clear; stty -a | cmp - {tmp_path}/before && echo as before", "Enter")
    window.wait_for("^as before")


def test_once_it_answers_the_panel_goes_on_and_nothing_typed_meanwhile_is_done(
    window: Tmux,
) -> None:
    with silent_folder(StateDirectory().root):
        window.press("n")
        window.wait_for(TOLD)
        window.press("?")
    window.wait_gone(TOLD)
    # What was asked for before opens; one Escape closes it, and no help is above it.
    window.wait_for("Launch a run")
    window.press("Escape")
    window.wait_for(NO_RUNS)


async def test_what_a_key_does_may_begin_long_after_it_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the loop took the key, and stood still later: nothing was told."""
    monkeypatch.setattr(driver, "_DONE_S", 0.0)
    held_up = driver.HeldUp(asyncio.get_running_loop())
    held_up.typed()
    for _ in range(100):
        await asyncio.sleep(0)
        assert held_up.is_asked
    monkeypatch.setattr(driver, "_BEGINS_WITHIN_S", 0.0)
    while held_up.is_asked:
        await asyncio.sleep(0)
