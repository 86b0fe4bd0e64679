"""The help page tells every key that is bound, as people read it."""

from pathlib import Path

from textual.binding import Binding

from runners.state.layout import StateDirectory
from tui.panel.app import PanelApp
from tui.panel.hotkeys import hotkey, key_lines, key_name
from tui.panel.screens.help import key_tables
from tui.panel.screens.launch import LaunchScreen
from tui.panel.screens.metrics import MetricsScreen
from tui.panel.widgets.gpu.picker import GpuPicker
from tui.panel.widgets.log.pane import LogPane


def test_keys_are_written_as_people_read_them() -> None:
    keys = ("slash", "ctrl+g", "pageup", "G", "escape", "left_square_bracket", "ctrl+left", "f2")
    assert [key_name(key) for key in keys] == [
        "/", "Ctrl+G", "PgUp", "G", "Esc", "[", "Ctrl+←", "F2",
    ]  # fmt: skip


def test_keys_with_the_same_words_share_a_line() -> None:
    bindings = [hotkey("n", "go(1)", "next, previous"), hotkey("N,p", "go(-1)", "next, previous")]
    assert key_lines(bindings) == [("n N p", "next, previous")]
    assert not bindings[0].show and hotkey("x", "y", "words", "Word").description == "Word"


async def test_the_help_page_has_every_key_of_the_panel(tmp_path: Path) -> None:
    app = PanelApp(StateDirectory(tmp_path / "state").create())
    async with app.run_test(size=(100, 50)) as pilot:
        tables = key_tables(app)
        told = {key for lines in tables.values() for keys, _ in lines for key in keys.split()}
        assert {"n", "Ctrl+Z", "Ctrl+P", "[", "PgDn", "|", "Ctrl+G", "Space"} <= told
        await pilot.press("question_mark")
        await pilot.pause()
        assert app.screen.query(".dialog")
    for place in (type(app.cockpit), LogPane, PanelApp):
        silent = {
            binding.key
            for binding in place.BINDINGS
            if isinstance(binding, Binding)
            and not binding.tooltip
            and not binding.action.startswith("screen.")
        }
        assert silent <= {"ctrl+c"}, place
    assert LaunchScreen.BINDINGS and GpuPicker.BINDINGS  # they say their keys where they stand


async def test_a_page_s_help_has_its_own_keys_only() -> None:
    app = PanelApp(StateDirectory())
    async with app.run_test():
        of_page = key_tables(app, MetricsScreen(app.state, None, ()))
    assert not [lines for name, lines in of_page.items() if ("n", "launch a run") in lines]
    assert len(of_page) == 2
