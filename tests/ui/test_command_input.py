"""The command line of the launch form, as a widget."""

import threading
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.widgets import Input

from tui.panel.widgets.launch import command_input
from tui.panel.widgets.launch.command_input import CommandInput, PathCompletion


class OneCommand(App[None]):
    """A command to type."""

    CSS = "CommandInput { background: transparent; }"

    def compose(self) -> ComposeResult:
        yield CommandInput("cat tr", "", (), lambda: Path("/"))
        yield Input()


async def test_painted_once_more_while_it_is_removed_it_ends_no_panel_of_sixteen_colours() -> None:
    app = OneCommand(ansi_color=True)
    async with app.run_test() as pilot:
        app.theme = "ansi-dark"
        await pilot.pause()
        command = app.query_one(CommandInput)
        # A form that is filled anew: what is behind its fields is no longer known.
        await command.remove()
        assert command.render_lines(Region(0, 0, 10, 1))


async def test_tab_does_not_leave_a_path_whose_folder_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()

    def slow(before: str, folder: Path) -> PathCompletion:
        answers.wait()
        return PathCompletion("ain.py", ("train.py",))

    monkeypatch.setattr(command_input, "complete_path", slow)
    app = OneCommand()
    async with app.run_test() as pilot:
        command = app.query_one(CommandInput)
        command.focus()
        command.move_cursor(command.document.end)
        try:
            await pilot.press("tab", "x")
            assert app.focused is command and command.text == "cat trx"
        finally:
            answers.set()
        command.text = "cat tr"
        command.move_cursor(command.document.end)
        await pilot.press("tab")
        assert command.text == "cat train.py"
