"""Real commands in processes of their own, and the feed that the panel draws, on drawn machines."""

import asyncio
import json
import os
import sys
from contextlib import aclosing
from typing import Any

from hypothesis import Phase, given, settings

from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, World, hosts
from tests.support import CEILING_S
from tests.warm import COMMANDS
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_json import to_json

TIMED = {"seconds", "progress", "health", "gpu_hours", "projected_usd"} | {
    f"{word}_usd" for word in ("cost", "share", "would")
}
"""What goes on between two looks at a run that lives."""
OF_DETAILS = {"diagnosis", "error"}
"""What the panel reads when somebody opens a run's details."""


def asked(world: World, *words: str) -> Any:
    """What a command prints as JSON."""
    done = COMMANDS.run(
        [sys.executable, "-m", "fresnel_tui", *words, "--json"],
        env={**os.environ, "FRESNEL_STATE_DIR": str(world.state.root)},
        capture_output=True,
        text=True,
        check=True,
        timeout=CEILING_S,
    )
    return json.loads(done.stdout)


async def second_snapshot(feed: SnapshotFeed) -> PanelSnapshot:
    """What is painted beneath the first screen, whose snapshot leaves out what takes reading."""
    async with aclosing(feed.snapshots()) as snapshots:
        await snapshots.__anext__()
        return await asyncio.wait_for(snapshots.__anext__(), CEILING_S)


@settings(max_examples=5, deadline=None, phases=[Phase.generate], derandomize=True)
@given(host=hosts(adoptable=False))
def test_commands_say_what_the_panel_is_given(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        snapshot = asyncio.run(second_snapshot(SnapshotFeed(world.state, read_only=True)))
        assert snapshot.reading is not None
        listed = {row["id"]: row for row in asked(world, "list", "--all")}
        cost = {row["id"]: row for row in asked(world, "cost")["runs"]}
        gpus = asked(world, "gpus")
        assert listed.keys() == {view.run.id for view in snapshot.runs}
        assert [gpu["uuid"] for gpu in gpus] == [gpu.uuid for gpu in snapshot.reading.gpus]
        for gpu, read in zip(gpus, snapshot.reading.gpus, strict=True):
            assert (gpu["utilization"], gpu["memory_used"]) == (read.utilization, read.memory_used)
            holders = [lease.run for lease in snapshot.leases.get(read.uuid, [])]
            assert [run["run"] for run in gpu["runs"]] == holders
        for view in snapshot.runs:
            run, row = view.run, row_of_view(view)
            status = asked(world, "status", run.id)
            apart = OF_DETAILS | (TIMED if run.is_live else set())
            fed = json.loads(json.dumps(to_json(view)))
            for name in fed.keys() - apart:
                assert status[name] == fed[name], name
            for name in ("state", "reason", "gpus", "exit_code", "ending", "tags", "checkpoint"):
                assert listed[run.id][name] == status[name], name
            assert (row.state, list(row.gpus)) == (status["state"], status["gpus"])
            assert cost[run.id]["state"] == status["state"]
            assert cost[run.id]["projection_basis"] == status["projection_basis"]
