"""Snapshots for the other end: the first whole, then what changed, and nothing when nothing did."""

import asyncio
import time
from typing import Any

from runners.places.ssh.difference import difference
from runners.places.ssh.snapshot_updates import snapshot_to_tree
from runners.places.ssh.thinning import thinned
from tui.agent.exchange import Exchange
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.snapshot.local_snapshot import place_snapshot

_CALM_S = 10.0
"""Where no run lives, so long between two messages about nothing but readings and money."""

_TREMBLING = frozenset({"reading", "meter"})


async def send_snapshots(exchange: Exchange) -> None:
    """Send `snapshot`, then `changes`, for as long as the link stands."""
    snapshots: asyncio.Queue[PanelSnapshot] = asyncio.Queue(1)
    reader = asyncio.create_task(SnapshotFeed(exchange.state.create()).snapshots(snapshots))
    known: dict[str, Any] | None = None
    sent_at = 0.0
    try:
        while True:
            taking = asyncio.create_task(snapshots.get())
            await asyncio.wait({taking, reader}, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                taking.cancel()
                return reader.result()
            snapshot = taking.result()
            tree = snapshot_to_tree(thinned(place_snapshot(snapshot)))
            changes = {} if known is None else difference(known, tree)
            if known is not None and not changes:
                continue
            now = time.monotonic()
            lives = any(view.run.is_live for view in snapshot.runs)
            if changes and not lives and changes.keys() <= _TREMBLING and now - sent_at < _CALM_S:
                continue
            message = {"snapshot": tree} if known is None else {"changes": changes}
            known, sent_at = tree, now
            await exchange.send(message)
    finally:
        reader.cancel()
