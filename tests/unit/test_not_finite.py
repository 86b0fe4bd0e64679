"""NaN and infinity are values with a name: shown, in JSON, in the API, over a link."""

import json
import time
from pathlib import Path

import msgspec
import pytest

from runners.host.identity import boot_id, host_name
from runners.model.run import Run, RunRecord
from runners.model.states import State
from runners.places.ssh.snapshot_updates import row_to_tree, rows_of
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.final_maker import keep_final
from tests.support import REPOSITORY, make_plan
from tui.api import runs
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_columns import TableContext, table_text
from tui.views.runs.run_json import to_json
from tui.views.runs.run_sort import parse_sort, sort_rows
from tui.views.runs.run_view import view_run


def ended(state: StateDirectory, number: int, *losses: float) -> Run:
    """A run of this state that is done, with these losses as its output."""
    run = state.run(f"20261120-10150{number}-demo-7f3a")
    run.path.mkdir(parents=True)
    plan = make_plan(run.path.name, directory=str(run.path))
    run.plan.write_bytes(msgspec.json.encode(plan))
    lines = [f"step {at}/9 | loss: {loss}" for at, loss in enumerate(losses, 1)]
    run.output.write_text("\n".join(lines) + "\n")
    now = time.time()
    record = RunRecord(State.DONE, host=host_name(), boot_id=boot_id(), started=now - 9, ended=now)
    run.state.write_bytes(msgspec.json.encode(record))
    return read_run(state, run.path.name)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path / "state"))
    return StateDirectory().create()


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(
    ("losses", "name"),
    [((0.5, float("nan")), "nan"), ((0.5, float("inf")), "inf"), ((1.0, -float("inf")), "-inf")],
)
def test_a_last_value_that_is_no_number_has_a_name(
    state: StateDirectory, losses: tuple[float, ...], name: str, is_kept: bool
) -> None:
    run = ended(state, 1, *losses)
    if is_kept:
        keep_final(run)
    said = to_json(view_run(run))
    assert (said["metrics"], said["not_finite"]) == ({"loss": None}, {"loss": name})
    assert said["best"]["loss"]["value"] == losses[0]
    row = row_of_ended(run, 0)
    assert table_text("last", TableContext(0.0))(row) == f"⚠ {name}" and not row.remark
    (there,) = rows_of(json.loads(json.dumps([row_to_tree(row)], allow_nan=False)))
    assert repr((there.last, there.metrics)) == repr((row.last, row.metrics))


def test_a_run_that_is_done_with_nothing_else_says_so_in_its_row(state: StateDirectory) -> None:
    run = ended(state, 1, *[float("nan")] * 6)
    assert "nan" in row_of_ended(run, 0).remark
    keep_final(run)
    assert "nan" in row_of_ended(run, 0).remark
    row = row_of_view(view_run(run))
    assert "nan" in row.remark and row.urgent


def test_what_is_no_number_is_sorted_behind_all_that_are(state: StateDirectory) -> None:
    values = (0.5, float("nan"), 0.25)
    rows = [row_of_ended(ended(state, at, loss), 0) for at, loss in enumerate(values)]
    for order in ("last", "last-"):
        assert sort_rows(rows, parse_sort(order))[-1].id == rows[1].id


def test_the_example_of_the_pages_runs_over_any_state_folder(state: StateDirectory) -> None:
    every = [(0.1,), (0.9,), (float("nan"),), (float("inf"),), ()]
    best, *_ = [ended(state, at, *losses).id for at, losses in enumerate(every)]
    # One that waits, one without a record, and two that are damaged.
    waiting = state.run(ended(state, 5).id)
    waiting.state.write_bytes(msgspec.json.encode(RunRecord(State.QUEUED)))
    state.run(ended(state, 6, 0.1).id).state.unlink()
    for at, name in ((7, "plan.json"), (8, "state.json")):
        (state.run(ended(state, at, 0.9).id).path / name).write_bytes(b"\xff{")
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    lines = [line for page in pages for line in page.read_text().splitlines()]
    names: dict[str, object] = {"runs": runs}
    exec(next(line for line in lines if line.startswith("good = ")), names)
    good = names["good"]
    assert isinstance(good, list)
    assert [(run.id, run.state) for run in good] == [(best, "done")]
