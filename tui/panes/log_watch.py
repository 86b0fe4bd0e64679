"""Noticing that one file changed, soon and cheaply."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

GLANCE = 0.5
"""Seconds between looks without a notice: another host's writes to a shared folder give none."""

_QUIET_LOOKS = 6


async def watch_file(path: Path, look: Callable[[], bool], frame: float) -> None:
    """Call `look` whenever the file at `path` may have changed, until cancelled; `look` says whether it had.

    While changes come they are looked for every `frame` seconds and the system's notices are left alone: a
    program that writes a hundred thousand times a second costs no more than one that writes thirty times.
    """
    woken, armed, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    notices = asyncio.create_task(_take_notice(path, woken, armed, stop))
    try:
        while True:
            armed.set()
            try:
                async with asyncio.timeout(GLANCE):
                    await woken.wait()
            except TimeoutError:
                pass
            armed.clear()
            woken.clear()
            quiet = 0 if look() else _QUIET_LOOKS
            while quiet < _QUIET_LOOKS:
                await asyncio.sleep(frame)
                quiet = 0 if look() else quiet + 1
    finally:
        stop.set()
        notices.cancel()
        await asyncio.gather(notices, return_exceptions=True)


async def _take_notice(path: Path, woken: asyncio.Event, armed: asyncio.Event, stop: asyncio.Event) -> None:
    awatch = (await asyncio.to_thread(import_module, "watchfiles")).awatch
    while True:
        try:
            async for _ in awatch(
                path.parent,
                watch_filter=lambda _, changed: Path(changed).name == path.name,
                recursive=False,
                debounce=50,
                step=5,
                stop_event=stop,
            ):
                woken.set()
                await armed.wait()
        except OSError:
            # No such folder yet, or no more watches to be had: the glances go on.
            await asyncio.sleep(10 * GLANCE)
        else:
            return
