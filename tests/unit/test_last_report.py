"""What a helper writes of a run once it has ended is shown, though the run was looked at before."""

import json
import shutil
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
from tui.snapshot import feed
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


def _take(panel: SnapshotFeed) -> PanelSnapshot:
    return panel._reader.submit(panel._take).result(CEILING_S)


def test_the_best_value_of_a_run_comes_with_its_last_report(state: StateDirectory) -> None:
    run = _ended(state)
    panel = SnapshotFeed(state, read_only=True)
    try:
        assert panel.first_snapshot(CEILING_S) is not None
        before = place_snapshot(_take(panel)).runs[run.path.name]
        assert (before.last, before.is_final) == (0.4, False)
        keep_final(read_run(state, run.path.name))
        after = place_snapshot(_take(panel)).runs[run.path.name]
        assert (after.last, after.best, after.is_final) == (0.4, 0.2, True)
    finally:
        panel._reader.shutdown()


def test_a_panel_that_stays_open_keeps_nothing_of_what_newer_runs_have_replaced(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_SHOWN_ENDED", 2)
    first = _ended(state)
    keep_final(read_run(state, first.id))
    panel = SnapshotFeed(state, read_only=True)
    try:
        assert panel.first_snapshot(CEILING_S) is not None
        for hour in range(11, 16):
            other = state.run(f"20261120-{hour}1500-demo-7f3a")
            shutil.copytree(first.path, other.path)
            assert other.id in {view.run.id for view in _take(panel).runs}
        assert len(_take(panel).runs) == 2
        assert len(panel._ended) + len(panel._reports) == 2
    finally:
        panel._reader.shutdown()
