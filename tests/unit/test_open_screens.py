"""Whether a screen can still be drawn on when what it asked for arrives."""

from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from tui.panel.screens.dialogs import is_open


async def test_a_screen_whose_parts_are_going_is_not_open() -> None:
    """Closed, or while the panel is left: a plan that came then ended with a traceback."""
    seen: list[bool] = []

    class Part(Static):
        def on_unmount(self) -> None:
            seen.append(is_open(self.screen))

    class Page(Screen[None]):
        def compose(self) -> ComposeResult:
            yield Part()

    app = App[None]()
    async with app.run_test():
        await app.push_screen(closed := Page())
        assert is_open(closed)
        await app.pop_screen()
        assert not is_open(closed)
        await app.push_screen(left := Page())
        assert is_open(left)
    assert seen == [False, False]
