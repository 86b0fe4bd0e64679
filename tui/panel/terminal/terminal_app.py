"""Textual's application where a terminal needs more.
The panel's use of its private names stands here (those of painting are in `repainting.py`).

Textual is pinned. `tests/unit/test_textual_internals.py` fails when another version is installed:
then each of these is looked at anew.
"""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.driver import Driver
from textual.screen import Screen

from tui.panel.terminal.driver import TerminalDriver
from tui.panel.terminal.job_control import has_job_control
from tui.panel.terminal.key_order import InOrder
from tui.panel.terminal.painter import Painter


class TerminalApp(InOrder):
    """An application that gives the terminal, and the mouse, back when asked to."""

    has_mouse = True
    """Whether the application is told of the mouse, rather than the terminal's own selection."""

    def __init__(self) -> None:
        super().__init__()
        if self.no_color:
            from tui.panel.theme.no_color import Colourless

            self._filters = [Colourless()]  # Textual's own leaves greys, which are colours
        self.painter = Painter(self)

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        # Nothing shows through a screen that is no dialog: Textual would paint all of it for each
        # change below it.
        return super()._background_screens if self.screen.is_modal else []

    async def on_event(self, event: events.Event) -> None:
        """Note what the painting must know of."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            self.painter.typed()
            # What a key opens does not dim the rest of the screen there: that is all of it to send.
            self.set_class(self.painter.is_slow, "-slow")
        elif isinstance(event, events.Resize):
            self.painter.forget()  # terminals lay out anew what they show
        await super().on_event(event)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        driver = self._driver
        if (
            not isinstance(renderable, (ChopsUpdate, LayoutUpdate))
            or driver is None
            or driver.is_headless
            or driver.is_inline
        ):
            super()._display(screen, renderable)
        elif self._running and not self._closed and not self._batch_count:
            self.painter.take(renderable)

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        # Textual would parse all that it has parsed already once more, before the screen opens.
        for path in screen.css_path:
            if not self.stylesheet.has_source(str(path), ""):
                self.stylesheet.read(path)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        # The one place that sees a key which nobody took.
        taken = await super()._check_bindings(key, priority)
        if not taken and not priority:
            self.key_unused(key)
        return taken

    def key_unused(self, key: str) -> None:
        """A key was pressed that does nothing where it was pressed: nothing is said of it."""

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice; ours where it is the one for terminals."""
        chosen = super().get_driver_class()
        # Tests without a terminal, and the browser, name drivers of their own.
        return TerminalDriver if chosen is TerminalDriver.__base__ else chosen

    def action_suspend_process(self) -> None:
        """Give the terminal back to the shell until `fg`, where there is one to say it."""
        if isinstance(self._driver, TerminalDriver) and has_job_control():
            self._driver.stop_group()
        else:
            self.notify("no shell to come back to: q leaves, runs go on", timeout=4)

    def action_mouse(self) -> None:
        """Give the mouse back to the terminal, whose own selection then works, or take it again."""
        driver = self._driver
        verb = "disable" if self.has_mouse else "enable"
        switch = getattr(driver, f"_{verb}_mouse_support", None)
        if driver is None or switch is None:
            return
        driver._mouse = True  # a panel opened without the mouse may take it later
        self.has_mouse = not self.has_mouse
        switch()
        notice = "the panel has the mouse"
        if not self.has_mouse:
            notice = "the terminal has the mouse: M takes it"
        self.notify(notice, timeout=4)
