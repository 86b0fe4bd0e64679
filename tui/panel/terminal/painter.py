"""When what is painted is sent: as often and as much as the line takes, keys' effects first."""

from __future__ import annotations

import os
from time import monotonic
from typing import Final

from rich.console import COLOR_SYSTEMS
from rich.control import Control
from textual.driver import Driver
from textual.geometry import Region
from textual.timer import Timer

from tui.panel.terminal.driver import Driven, TerminalDriver
from tui.panel.terminal.line import QUESTION, Line
from tui.panel.terminal.terminal_screen import TerminalScreen
from tui.panel.terminal.textual_private import ChopsUpdate, LayoutUpdate

_WITHOUT_COLOURED_BLANKS: Final = ("screen", "vt", "ansi", "dumb")
"""Terminals, by $TERM, that erase in their own colour and not in the background's."""
_EFFECT_S: Final = 1.0
"""So long after a key only the newest is sent: nobody asks any more for what came before."""
_ACTS_S: Final = 0.3
_LONGEST_EFFECT_S: Final = 3.0
_SLOW_FRAME_S: Final = 0.5
_LEAST_S: Final = 0.002
_EVERYTHING: Final = 1 << 24
_SYNC_START: Final = "\x1b[?2026h"
_SYNC_END: Final = "\x1b[?2026l"


class Painter:
    """Sends an application's screen to its terminal, the rest of it when the line takes more."""

    wants_slow = False
    """Whether it was said that the line is slow."""
    can_sync = False
    """Whether the terminal shows what stands between two marks at once, as it said."""

    def __init__(self, app: Driven) -> None:
        self._app = app
        system = COLOR_SYSTEMS[app.console.color_system or "truecolor"]
        coloured = bool(os.environ.get("TMUX"))
        coloured |= not os.environ.get("TERM", "").startswith(_WITHOUT_COLOURED_BLANKS)
        self.screen = TerminalScreen(system, coloured)
        self._line: Line | None = None
        self._typed_at = self._painted_at = 0.0
        self._again: Timer | None = None

    @property
    def is_slow(self) -> bool:
        """Whether the line is slow: it was seen to be, or it was said."""
        return self.wants_slow or (self._line is not None and self._line.is_slow)

    @property
    def waits_for_effect(self) -> bool:
        """Whether a key's effect is still to be sent: what else changes had better wait."""
        since = monotonic() - self._typed_at
        return since < _ACTS_S or (since < _LONGEST_EFFECT_S and not self.screen.is_shown)

    @property
    def is_sparing(self) -> bool:
        """Whether each byte counts: the line is slow, or may be."""
        return self.is_slow or bool(os.environ.get("SSH_CONNECTION"))

    def take(self, update: ChopsUpdate | LayoutUpdate) -> None:
        """Take in what Textual has painted, and send what fits."""
        self.screen.take(update, self._app.size)
        self._send_what_fits()

    def forget(self) -> None:
        """The terminal may show anything."""
        self.screen.forget()

    def typed(self) -> None:
        """A key came: its effect is sent before anything else."""
        self._typed_at = monotonic()
        if self._line is not None:
            self._line.typed()

    def draw_over(self, region: Region, text: str) -> None:
        """Send a picture's own sequence, which draws over these cells of the screen."""
        driver = self._app.terminal
        if driver is not None:
            self._send_all(driver)
            driver.write(text)
            self.screen.overdraw(region)

    def _send_what_fits(self) -> None:
        driver, screen = self._app.terminal, self.screen
        if driver is None or not self._app.is_running:
            return
        if not isinstance(driver, TerminalDriver):
            self._send_all(driver)
            return
        if driver.line is not self._line:
            self._line, driver.room_made = driver.line, self._send_what_fits
            screen.forget()
        if self._again is not None:
            self._again.stop()
            self._again = None
        is_effect = monotonic() - self._typed_at < _EFFECT_S
        wait = 0.0
        if self.wants_slow and not is_effect and screen.is_between_frames:
            wait = self._painted_at + _SLOW_FRAME_S - monotonic()
        while wait <= 0 and not screen.is_shown:
            if not (room := driver.line.room):
                wait = driver.line.patience
                break
            self._painted_at = monotonic()
            text = screen.write(min(room, driver.line.piece), newest=is_effect)
            if text:
                size = self._send(driver, text + QUESTION)
                driver.line.sent(size, more=not screen.is_shown)
        if wait > 0 and not screen.is_shown:
            # Textual's timer of less than a turn of its loop never ends.
            self._again = self._app.set_timer(max(wait, _LEAST_S), self._send_what_fits)

    def _send_all(self, driver: Driver) -> None:
        while text := self.screen.write(_EVERYTHING, newest=True):
            self._send(driver, text)

    def _send(self, driver: Driver, text: str) -> int:
        """Write a part of a frame, the cursor where it belongs; its bytes."""
        app = self._app
        place = app.screen.outer_size.clamp_offset(app.cursor_position)
        text += Control.move_to(*place).segment.text
        if self.can_sync:
            text = f"{_SYNC_START}{text}{_SYNC_END}"
        driver.write(text)
        return len(text.encode())
