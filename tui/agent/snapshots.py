"""Snapshots for the other end: the first whole, then what changed, or that nothing did."""

import time
from contextlib import aclosing
from typing import Any

from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.snapshot_updates import difference, snapshot_to_tree
from runners.places.ssh.thinning import thinned
from tui.agent.exchange import Exchange
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.runs.row_reading import row_of_view

_CALM_S = 10.0
"""So long between two messages that nothing has changed; where no run lives, between two about
nothing but readings and money.
"""

# They change with every reading: each change by itself would keep a slow line busy.
_TREMBLING = frozenset({"reading", "meter"})


def place_snapshot(snapshot: PanelSnapshot) -> PlaceSnapshot:
    """What the panel shows of this machine, its runs as rows."""
    names = {view.run.id: view.run.name for view in snapshot.runs}
    return PlaceSnapshot(
        host=snapshot.host,
        runs={view.run.id: row_of_view(view, names) for view in snapshot.runs},
        reading=snapshot.reading,
        leases=snapshot.leases,
        session=snapshot.session,
        meter=snapshot.meter,
        guard=snapshot.guard,
        drained=snapshot.drained,
        problem=snapshot.problem,
        hidden=snapshot.hidden,
    )


async def send_snapshots(exchange: Exchange) -> None:
    """Send `snapshot`, then `changes` or `same`, for as long as the link stands."""
    known: dict[str, Any] | None = None
    sent_at = 0.0
    async with aclosing(SnapshotFeed(exchange.state.create()).snapshots()) as snapshots:
        # When the line is slow, the feed waits rather than pile up what is old by then.
        async for snapshot in snapshots:
            tree = snapshot_to_tree(thinned(place_snapshot(snapshot)))
            changes = {} if known is None else difference(known, tree)
            now = time.monotonic()
            lives = any(view.run.is_live for view in snapshot.runs)
            # Without changes there are none but trembling ones either.
            is_calm = changes.keys() <= _TREMBLING and not (changes and lives)
            if known is not None and is_calm and now - sent_at < _CALM_S:
                continue
            message: dict[str, Any] = {"changes": changes} if changes else {"same": 1}
            if known is None:
                message = {"snapshot": tree}
            known, sent_at = tree, now
            await exchange.send(message)
