"""The command line of the launch form, as a widget."""

from textual.app import App, ComposeResult
from textual.geometry import Region

from tui.panel.widgets.launch.command_input import CommandInput


class OneCommand(App[None]):
    """A command to type."""

    CSS = "CommandInput { background: transparent; }"

    def compose(self) -> ComposeResult:
        yield CommandInput("echo", "", (), lambda: None)


async def test_painted_once_more_while_it_is_removed_it_ends_no_panel_of_sixteen_colours() -> None:
    app = OneCommand(ansi_color=True)
    async with app.run_test() as pilot:
        app.theme = "ansi-dark"
        await pilot.pause()
        command = app.query_one(CommandInput)
        # A form that is filled anew: what is behind its fields is no longer known.
        await command.remove()
        assert command.render_lines(Region(0, 0, 10, 1))
