"""A run's curves for the other end, thinned: at first all, then what is added, while it lives."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from runners.model.run import Run
from runners.places.ssh.curves import CurveSender
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, read_run
from tui.snapshot.curve_store import CurveStore

_EVERY_S = 2.0
_PIECE_S = 1.0
"""Of a long history, what was read within this time is told before the rest."""


async def send_curves(
    state: StateDirectory,
    number: int,
    asked: dict[str, Any],
    send: Callable[..., Awaitable[None]],
    acknowledged: tuple[asyncio.Event, list[int]],
) -> None:
    """Send the curves of the run `run` and of those it was resumed from until it has ended, then
    `ended`; the next message only when the one before it was taken.
    """
    run_id = find_run(state, str(asked["run"])).id
    store, sender, told = CurveStore(), CurveSender(), dict[str, Any]()
    event, counts = acknowledged
    sent = 0
    while True:
        run = read_run(state, run_id)
        more = await asyncio.to_thread(_read, store, run)
        fields, data = await asyncio.to_thread(sender.news, store.line(run))
        words = {"settings": store.settings(run_id), "notes": store.notes(run_id)}
        if words != told:
            told = words
            fields = {**fields, **words}
        if fields:
            await send({"id": number, **fields}, data)
            sent += len(data)
        while sent > counts[0]:
            event.clear()
            await event.wait()
        if not more:
            # Looked at before reading: what a run told last was there when it had ended.
            if not run.is_live:
                await send({"id": number, "ended": True})
                return
            await asyncio.sleep(_EVERY_S)


def _read(store: CurveStore, run: Run) -> bool:
    """Read on for a while; True while there is more."""
    deadline = time.monotonic() + _PIECE_S
    while more := store.read([run]):
        if time.monotonic() > deadline:
            break
    return more
