"""The kept rows of ended runs: quick, and never believed when a run says otherwise."""

import os
import shutil
import time
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.model.states import State
from runners.state.labels_file import change_labels
from runners.state.layout import StateDirectory
from runners.state.runs import list_run_ids
from tests.support import make_plan
from tui.views.runs import ended_index
from tui.views.runs.ended_index import EndedIndex


def an_ended_run(state: StateDirectory, number: int, loss: float) -> str:
    run_id = f"20261120-1015{number:02}-demo-{number:04x}"
    directory = state.run(run_id)
    directory.path.mkdir(parents=True)
    plan = make_plan(run_id, name=f"demo-{number}")
    replace(directory.plan, msgspec.json.encode(plan))
    record = {"state": "done", "started": 1.0, "ended": 9.0, "exit_code": 0}
    replace(directory.state, msgspec.json.encode(record))
    value = {"last": loss, "step": 5, "count": 5, "best": loss / 2, "best_step": 3}
    final = {"ended": 9.0, "progress": {}, "metrics": {"loss": value}, "headline": "loss"}
    replace(directory.path / "final.json", msgspec.json.encode(final))
    return run_id


def look(state: StateDirectory) -> EndedIndex:
    index = EndedIndex(state)
    assert not index.refresh(list_run_ids(state), (), verify=True)
    return index


def test_rows_are_kept_and_one_that_changed_is_read_again(tmp_path: Path, monkeypatch) -> None:
    state = StateDirectory(tmp_path)
    monkeypatch.setattr(ended_index, "_SAVED_FROM", 3)
    ids = [an_ended_run(state, i, loss=i / 10) for i in range(4)]
    rows = {row.id: row for row in look(state).ended.rows}
    assert rows[ids[3]].last == 0.3 and rows[ids[3]].best == 0.15
    assert state.ended_rows.exists()

    read: list[str] = []
    monkeypatch.setattr(
        ended_index, "read_run", lambda state, one: read.append(one) or _read_run(state, one)
    )
    assert {row.id: row for row in look(state).ended.rows} == rows and not read
    change_labels(state.run(ids[1]), lambda labels: msgspec.structs.replace(labels, tags=("good",)))
    (changed,) = [row for row in look(state).ended.rows if row.tags]
    assert changed.id == ids[1] and read == [ids[1]]


def test_a_run_that_goes_while_it_is_looked_at_has_no_row(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    stays, goes = [an_ended_run(state, i, loss=0.1) for i in range(2)]
    index = look(state)
    shutil.rmtree(state.run(goes).path)
    for verify in (True, False):
        index.refresh([stays, goes, "20261120-101509-gone-0009"], (), verify=verify)
        assert [row.id for row in index.ended.rows] == [stays]


def test_a_run_that_went_is_gone_and_a_damaged_file_is_made_again(tmp_path, monkeypatch) -> None:
    state = StateDirectory(tmp_path)
    monkeypatch.setattr(ended_index, "_SAVED_FROM", 1)
    first, second = an_ended_run(state, 1, 0.1), an_ended_run(state, 2, 0.2)
    look(state)
    state.run(first).path.rename(tmp_path / "elsewhere")
    assert [row.id for row in look(state).ended.rows] == [second]
    state.ended_rows.write_bytes(state.ended_rows.read_bytes()[:-20])
    assert [row.id for row in look(state).ended.rows] == [second]


def test_little_time_at_once_still_ends_with_all(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    ids = [an_ended_run(state, i, 0.1) for i in range(6)]
    index, looks = EndedIndex(state), 1
    while index.refresh(ids, (), verify=False, budget_s=0.0):
        looks += 1
    assert len(index.ended.rows) == 6 and 1 < looks <= 7
    assert [row.state for row in index.ended.rows] == [State.DONE] * 6


def test_a_run_seen_while_it_began_and_not_again_before_its_end_is_read_anew(tmp_path) -> None:
    """Its folder is there before its marker: a short one is live in no look."""
    state, index = StateDirectory(tmp_path), EndedIndex(StateDirectory(tmp_path))
    index.refresh((), (), verify=False)
    begun = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-demo-0001")
    state.run(begun).path.mkdir(parents=True)
    os.utime(state.run(begun).path, ns=(1, 1))
    index.refresh([begun], (), verify=False)
    replace(state.run(begun).plan, msgspec.json.encode(make_plan(begun, name="short")))
    record = {"state": "done", "started": time.time(), "ended": time.time(), "exit_code": 0}
    replace(state.run(begun).state, msgspec.json.encode(record))
    index.refresh([begun], (), verify=False)
    assert [(row.name, row.state) for row in index.ended.rows] == [("short", State.DONE)]


_read_run = ended_index.read_run


def test_a_run_deleted_meanwhile_has_no_other_read_again(tmp_path: Path, monkeypatch) -> None:
    state = StateDirectory(tmp_path)
    ids = [an_ended_run(state, i, loss=i / 10) for i in range(3)]
    index = look(state)
    with os.scandir(state.runs) as found:
        entries = list(found)
    shutil.rmtree(state.run(ids[1]).path)
    monkeypatch.setattr(ended_index.os, "scandir", lambda _: nullcontext(entries))
    read: list[str] = []
    monkeypatch.setattr(index, "_read", lambda run_id: bool(read.append(run_id)))
    index.refresh([ids[0], ids[2]], (), verify=True)
    assert read == []
