"""Textual's application where a terminal needs more."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import RenderableType
from textual import events, messages, on
from textual.driver import Driver
from textual.filter import LineFilter
from textual.screen import Screen

from runners.host.procfs import parent_of
from tui.panel.terminal.driver import MOUSE, Driven, TerminalDriver
from tui.panel.terminal.key_order import InOrder
from tui.panel.terminal.painter import Painter
from tui.panel.terminal.textual_private import ChopsUpdate, LayoutUpdate


class TerminalApp(InOrder, Driven):
    """An application that gives the terminal, and the mouse, back when asked to."""

    has_mouse = True
    """Whether the application is told of the mouse, rather than the terminal's own selection."""

    def __init__(self) -> None:
        super().__init__()
        self.painter = Painter(self)
        self._batches = 0
        self._styled_with: dict[str, str] = self.get_css_variables()
        self._without_colours: list[LineFilter] = []
        if self.no_color:
            from tui.panel.theme.no_color import Colourless

            # Textual's own leaves greys, which are colours.
            self._without_colours.append(Colourless())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes the colours of all that is painted."""
        return self._without_colours or super().get_line_filters()

    def get_screen(self, screen: Any, screen_class: type[Screen[Any]] | None = None) -> Any:
        """The screen that opens. What its styles lack is read now.

        Textual would parse all that it has parsed already once more, before the screen opens.
        """
        found = super().get_screen(screen, screen_class)
        for path in found.css_path:
            if not self.stylesheet.has_source(str(path), ""):
                self.stylesheet.read(path)
        return found

    @contextmanager
    def batch_update(self) -> Iterator[None]:
        """Paint nothing meanwhile."""
        self._batches += 1
        try:
            with super().batch_update():
                yield
        finally:
            self._batches -= 1

    @on(messages.TerminalSupportsSynchronizedOutput)
    def _can_sync(self) -> None:
        self.painter.can_sync = True

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
        if self.terminal is None or not isinstance(renderable, (ChopsUpdate, LayoutUpdate)):
            super()._display(screen, renderable)
        elif self.is_running and not self._batches:
            self.painter.take(renderable)

    def refresh_css(self, animate: bool = True) -> None:
        """Work out all styles anew; not as long as nothing is painted and no colour has changed.

        Textual asks for it when it starts, though it has just done so.
        """
        colours = self.get_css_variables()
        seen = [screen for screen in self.screen_stack if getattr(screen, "paints", True)]
        if seen or colours != self._styled_with:
            self._styled_with = colours
            super().refresh_css(animate)

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice; ours where it is the one for terminals."""
        chosen = super().get_driver_class()
        # Tests without a terminal, and the browser, name drivers of their own.
        return TerminalDriver if chosen is TerminalDriver.__base__ else chosen

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Lend the terminal to another program: Ctrl+C there is not meant for the panel."""
        failed: Exception | None = None
        with super().suspend():
            # A handler and not SIG_IGN, which that program would inherit.
            before = signal.signal(signal.SIGINT, lambda *_: None)
            try:
                yield
            except Exception as error:  # Textual takes the terminal back without one only
                failed = error
            finally:
                signal.signal(signal.SIGINT, before)
        if failed is not None:
            raise failed

    def action_suspend_process(self) -> None:
        """Give the terminal back to the shell until `fg`, where there is one to say it."""
        if isinstance(self.terminal, TerminalDriver) and _has_job_control():
            self.terminal.stop_group()
        else:
            self.notify("no shell to come back to: q leaves, runs go on", timeout=4)

    def action_mouse(self) -> None:
        """Give the mouse back to the terminal, whose own selection then works, or take it again."""
        terminal = self.terminal
        if terminal is None:
            return
        self.has_mouse = not self.has_mouse
        if isinstance(terminal, TerminalDriver):
            terminal.switch_mouse(self.has_mouse)
        else:
            terminal.write(MOUSE[self.has_mouse])
        notice = "the panel has the mouse"
        if not self.has_mouse:
            notice = "the terminal has the mouse: M takes it"
        self.notify(notice, timeout=4)


def _has_job_control() -> bool:
    """Whether a shell of this terminal session would see us stop, and could say `fg`.

    Where the panel is all that runs in a terminal (`ssh -t host fresnel-tui`, a container) nobody
    could: POSIX calls such a process group orphaned, and a panel stopped in it would stand still
    for ever.
    """
    group, session, pid = os.getpgrp(), os.getsid(0), os.getpid()
    while (pid := parent_of(pid) or 0) > 0:
        try:
            if os.getsid(pid) != session:
                return False
            if os.getpgid(pid) != group:
                return True
        except OSError:
            return False
    return False
