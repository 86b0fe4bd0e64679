"""Runs that ended before those of a snapshot, a page at a time, when somebody looks so far back."""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import Any

from runners.cost.run_costs import costs_of
from runners.host.clock import moment_now
from runners.places.ssh.older import MOST_OLDER
from runners.places.ssh.snapshot import row_to_tree
from runners.places.ssh.thinning import thin_row
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run
from tui.views.runs.run_row import row_of_view
from tui.views.runs.run_view import view_run


async def send_older(
    state: StateDirectory,
    number: int,
    asked: dict[str, Any],
    send: Callable[..., Awaitable[None]],
) -> None:
    """Send the newest ended runs before the run `before`, or those of `ids` that are still there;
    and how many ended before them.
    """
    await send({"id": number, "answer": await asyncio.to_thread(_older, state, asked)})


def _older(state: StateDirectory, asked: dict[str, Any]) -> dict[str, Any]:
    live = set(live_run_ids(state))
    ended = [run_id for run_id in list_run_ids(state) if run_id not in live]
    if "ids" in asked:
        there = set(ended)
        wanted = [str(one) for one in asked["ids"] if one in there][:MOST_OLDER]
        left = None
    else:
        end = bisect_left(ended, str(asked["before"]))
        wanted = ended[max(0, end - MOST_OLDER) : end]
        left = end - len(wanted)
    runs = [read_run(state, run_id) for run_id in reversed(wanted)]
    costs = costs_of(state, runs, moment_now())
    rows = [thin_row(row_of_view(view_run(run, costs=costs))) for run in runs]
    return {"runs": [row_to_tree(row) for row in rows], "left": left}
