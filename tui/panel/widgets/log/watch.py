"""Noticing that one file changed, soon and cheaply for both sides."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from textual.app import App

from runners.host.inotify import OneShotWatch
from tui.panel.terminal.terminal_app import TerminalApp
from tui.panel.widgets.log.window_reader import LogReader

FRAME = 1 / 30
"""Seconds between paints of a log with a line now and then."""
CHATTY_FRAME = 1 / 15
"""Seconds between paints once more than a screenful comes per paint: nobody reads those."""
PAUSED_FRAME = 0.5
"""Seconds between paints while only the count of new lines below a reader changes."""
SPARING_FRAME = 0.5
"""Seconds between paints at most where each byte counts, unless a screenful has come before."""
SPARING_PAUSED_FRAME = 5.0
"""As `PAUSED_FRAME`, where each byte counts."""
EFFECT_FRAME = 1.0
"""Seconds between paints while a key's effect is to be sent, which goes first."""
COVERED_FRAME = 1.0
"""Seconds between paints at least below a dialog, which each of them composes anew."""
GLANCE = 0.5
"""Seconds between looks without a notice: another host's writes to a shared folder give none."""

_QUIET_POLLS = 6


def frame_of(reader: LogReader, app: App[Any], columns: int) -> float:
    """Seconds between paints: more where one tells little or costs much, or each byte counts."""
    frame = _uncovered_frame(reader, app, columns)
    return max(frame, COVERED_FRAME) if len(app.screen_stack) > 1 else frame


def _uncovered_frame(reader: LogReader, app: App[Any], columns: int) -> float:
    painter = app.painter if isinstance(app, TerminalApp) else None
    sparing = painter is not None and painter.is_sparing
    if painter is not None and sparing and painter.waits_for_effect:
        return EFFECT_FRAME
    if reader.news_is_below:
        return SPARING_PAUSED_FRAME if sparing else PAUSED_FRAME
    grown = reader.document.size - reader.painted_size
    if sparing:
        # Rows that are painted only to move on cost more than the log itself: a screenful at once.
        shown = reader.view.bottom - reader.view.top
        return CHATTY_FRAME if reader.view.is_full and grown >= shown else SPARING_FRAME
    return CHATTY_FRAME if grown > reader.view.height * max(80, columns) else FRAME


class FileWatch:
    """Notices that the file chosen last may have changed."""

    def __init__(self, check: Callable[[], bool], frame: float) -> None:
        """`check` is called then; it returns whether the file had changed.

        While changes come they are looked for every `frame` seconds and no notice is asked for: a
        program that writes a hundred thousand times a second is not slowed down, and costs no more
        than one that writes thirty times.
        """
        self._check, self._frame = check, frame
        self._path: Path | None = None
        self._woken = asyncio.Event()

    def choose(self, path: Path | None) -> None:
        """Watch this file from now on, or none."""
        self._path = path
        self._woken.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        notice = open_notice()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if notice is not None:
                notice.drain()
            self._woken.set()

        if notice is not None:
            loop.add_reader(notice.descriptor, wake)
        try:
            while True:
                await self._watch_once(notice)
        finally:
            if notice is not None:
                loop.remove_reader(notice.descriptor)
                notice.close()

    async def _watch_once(self, notice: OneShotWatch | None) -> None:
        self._woken.clear()
        if self._path is None:
            await self._woken.wait()
            return
        if notice is not None:
            notice.arm(self._path)
        if not self._check():  # what came before the notice was armed
            with suppress(asyncio.TimeoutError):  # a class of its own before Python 3.11
                await asyncio.wait_for(self._woken.wait(), GLANCE)
        quiet = 0 if self._check() else _QUIET_POLLS
        while quiet < _QUIET_POLLS:
            await asyncio.sleep(self._frame)
            quiet = 0 if self._check() else quiet + 1


def open_notice() -> OneShotWatch | None:
    """The kernel's notices, or None where there are none: then the glances alone do it."""
    try:
        return OneShotWatch()
    except OSError:
        return None
