"""What a helper writes of a run once it has ended is shown, though the run was looked at before."""

import json
import time
from pathlib import Path

import msgspec
import pytest

from runners.host.identity import boot_id, host_name
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.final_maker import keep_final
from tests.support import CEILING_S, make_plan
from tui.agent.snapshots import place_snapshot
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").create()


def _ended(state: StateDirectory) -> RunDirectory:
    """A run that has just been stopped: its last value is worse than one before."""
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir(parents=True)
    plan = make_plan(directory=str(run.path))
    run.plan.write_bytes(msgspec.json.encode(plan))
    lines = [
        json.dumps({"time": 1.0, "type": "metrics", "step": at, "values": {"loss": loss}})
        for at, loss in enumerate((0.5, 0.2, 0.4), 1)
    ]
    run.events.write_text("\n".join(lines) + "\n")
    now = time.time()
    record = RunRecord(
        State.STOPPED, host=host_name(), boot_id=boot_id(), started=now - 9, ended=now
    )
    run.state.write_bytes(msgspec.json.encode(record))
    return run


def _take(feed: SnapshotFeed) -> PanelSnapshot:
    return feed._reader.submit(feed._take).result(CEILING_S)


def test_the_best_value_of_a_run_comes_with_its_last_report(state: StateDirectory) -> None:
    run = _ended(state)
    feed = SnapshotFeed(state, read_only=True)
    try:
        assert feed.first_snapshot(CEILING_S) is not None
        before = place_snapshot(_take(feed)).runs[run.path.name]
        assert (before.last, before.is_final) == (0.4, False)
        keep_final(read_run(state, run.path.name))
        after = place_snapshot(_take(feed)).runs[run.path.name]
        assert (after.last, after.best, after.is_final) == (0.4, 0.2, True)
    finally:
        feed._reader.shutdown()
