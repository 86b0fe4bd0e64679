"""A run's curves for the other end, thinned: at first all, then what is added, while it lives."""

import asyncio
import time
from typing import Any

from runners.model.run import Run
from runners.places.ssh.curve_updates import CurveSender
from runners.state.runs import read_run
from tui.agent.exchange import Exchange
from tui.snapshot.curve_store import CurveStore

_EVERY_S = 2.0
_PIECE_S = 1.0
"""Of a long history, what was read within this time is sent before the rest."""


async def send_curves(exchange: Exchange) -> None:
    """Send the curves of the run `run` and of its ancestors until it has ended, then `ended`.

    A message goes out only when the one before it was taken.
    """
    run_id = exchange.find_run().id
    store, sender, sent = CurveStore(), CurveSender(), dict[str, Any]()
    while True:
        run = read_run(exchange.state, run_id)
        # Beside the loop: reading a long log would hold up the link's other requests.
        more = await asyncio.to_thread(_read, store, run)
        fields, data = await asyncio.to_thread(sender.news, store.line(run))
        facts = {"settings": store.settings(run_id), "notes": store.notes(run_id)}
        if facts != sent:
            sent = facts
            fields = {**fields, **facts}
        if fields:
            await exchange.send(fields, data)
        await exchange.wait_for_room(1)
        if not more:
            # Its state was read before its files: what it wrote last was there when it had ended.
            if not run.is_live:
                await exchange.send({"ended": True})
                return
            await asyncio.sleep(_EVERY_S)


def _read(store: CurveStore, run: Run) -> bool:
    """Read on for a while; True while there is more."""
    deadline = time.monotonic() + _PIECE_S
    while more := store.read([run]):
        if time.monotonic() > deadline:
            break
    return more
