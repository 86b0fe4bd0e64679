"""Noticing that one file changed, soon and cheaply for both sides."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from runners.host.inotify import OneShotWatch
from tui.panel.widgets.log.window_reader import LogReader

FRAME = 1 / 30
"""Seconds between paints of a log with a line now and then."""
CHATTY_FRAME = 1 / 15
"""Seconds between paints once more than a screenful comes per paint: nobody reads those."""
PAUSED_FRAME = 0.5
"""Seconds between paints while only the count of new lines below a reader changes."""
GLANCE = 0.5
"""Seconds between looks without a notice: another host's writes to a shared folder give none."""

_QUIET_POLLS = 6


def frame_of(reader: LogReader, least: float, columns: int) -> float:
    """Seconds between paints: at least so many, and more the less a paint tells the reader."""
    if reader.news_is_below:
        return PAUSED_FRAME
    grown = reader.document.size - reader.painted_size
    chatty = grown > reader.view.height * max(80, columns)
    return max(least, CHATTY_FRAME if chatty else FRAME)


async def watch_file(path: Path, check: Callable[[], bool], frame: float) -> None:
    """Call `check` whenever the file at `path` may have changed, until cancelled.
    `check` returns whether it had.

    While changes come they are looked for every `frame` seconds and no notice is asked for: a
    program that writes a hundred thousand times a second is not slowed down, and costs no more
    than one that writes thirty times.
    """
    notice = open_notice()
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        if notice is not None:
            notice.drain()
        woken.set()

    if notice is not None:
        loop.add_reader(notice.descriptor, wake)
    try:
        while True:
            woken.clear()
            if notice is not None:
                notice.arm(path)
            if not check():  # what came before the notice was armed
                await _sleep_until(woken, GLANCE)
            quiet = 0 if check() else _QUIET_POLLS
            while quiet < _QUIET_POLLS:
                await asyncio.sleep(frame)
                quiet = 0 if check() else quiet + 1
    finally:
        if notice is not None:
            loop.remove_reader(notice.descriptor)
            notice.close()


def open_notice() -> OneShotWatch | None:
    """The kernel's notices, or None where there are none: then the glances alone do it."""
    try:
        return OneShotWatch()
    except OSError:
        return None


async def _sleep_until(woken: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(woken.wait(), seconds)
    except asyncio.TimeoutError:  # a class of its own before Python 3.11
        pass
