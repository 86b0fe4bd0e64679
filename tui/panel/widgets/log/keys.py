"""Keys, wheel and scroll bar of the log pane, in terms of a few movements."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp

from tui.panel.widgets.log.title import BAR


class LogKeys(ScrollView):
    """What a reader does to a log; the pane says what comes of it."""

    following: reactive[bool] = reactive(True, init=False)
    """Whether the end is shown and stays shown as the log grows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("left,h", "scroll_left", "Left", show=False),
        Binding("right,l", "scroll_right", "Right", show=False),
        Binding("pagedown,space,ctrl+f", "page_down", "Page down", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("home,g", "scroll_home", "Start", show=False),
        Binding("G,end", "scroll_end", "Follow", key_display="G"),
        Binding("W", "toggle_wrap", "Wrap", show=False),
        Binding("n", "next_match", "Next match", show=False),
        Binding("N", "previous_match", "Previous match", show=False),
        Binding("e", "next_error", "Error"),
        Binding("E", "previous_error", "Previous error", show=False),
        Binding("y", "copy_lines", "Copy"),
        Binding("v", "pick", "Select", show=False),
        Binding("w", "ask('write')", "Write", show=False),
        Binding("R", "next_rank", "Rank", show=False),
        Binding("colon,ctrl+g", "ask('goto')", "Go to", show=False, key_display=":"),
        Binding("escape", "leave", "Leave", show=False),
        # The screen's: which of them are among the hints while a log has the keys. 80 columns are
        # full with these.
        Binding("ampersand", "screen.filter", "Filter", key_display="&"),
        Binding("3", "screen.focus_pane('log')", "Log", show=False),
        Binding("s", "app.stop", "Stop", show=False),
        Binding("z", "screen.zoom", "Zoom", show=False),
    ]

    def move(self, rows: int) -> None:
        """Scroll down, or up."""
        raise NotImplementedError

    def shift(self, direction: int) -> None:
        """Scroll to the right (1) or left (-1)."""
        raise NotImplementedError

    def go_start(self) -> None:
        """Show the first line."""
        raise NotImplementedError

    def go_end(self) -> None:
        """Show the end."""
        raise NotImplementedError

    def go_percent(self, percent: float) -> None:
        """Show the line at so many percent of the bytes."""
        raise NotImplementedError

    @property
    def page(self) -> int:
        """Rows on the screen."""
        return max(1, self.scrollable_content_region.height)

    def action_scroll_down(self) -> None:
        """One row down."""
        self.move(1)

    def action_scroll_up(self) -> None:
        """One row up."""
        self.move(-1)

    def action_page_down(self) -> None:
        """A screen down, one row of it kept."""
        self.move(max(1, self.page - 1))

    def action_page_up(self) -> None:
        """A screen up, one row of it kept."""
        self.move(-max(1, self.page - 1))

    def action_scroll_home(self) -> None:
        """The first line."""
        self.go_start()

    def action_scroll_end(self) -> None:
        """The end, followed."""
        self.go_end()

    def action_scroll_left(self) -> None:
        """Half a screen to the left."""
        self.shift(-1)

    def action_scroll_right(self) -> None:
        """Half a screen to the right."""
        self.shift(1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows down."""
        event.prevent_default().stop()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three rows up."""
        event.prevent_default().stop()
        self.move(-3)

    def on_scroll_up(self, message: ScrollUp) -> None:
        """A click above the scroll bar's thumb."""
        message.prevent_default().stop()
        self.action_page_up()

    def on_scroll_down(self, message: ScrollDown) -> None:
        """A click below the scroll bar's thumb."""
        message.prevent_default().stop()
        self.action_page_down()

    def on_scroll_to(self, message: ScrollTo) -> None:
        """The scroll bar's thumb was dragged."""
        message.prevent_default().stop()
        if message.y is not None:
            self.go_percent(100 * message.y / BAR)
