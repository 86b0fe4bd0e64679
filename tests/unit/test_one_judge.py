"""One answer to "how does this run do": every surface is asked for the same runs, and agrees."""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tui.api
from runners.health.store import read_health
from runners.host.identity import boot_id, host_name
from runners.host.locks import acquire
from runners.model.gpus import GpuUse, RunUsage
from runners.model.health import Condition, Health
from runners.model.plan import AssignedGpu, LaunchPlan, Origin
from runners.model.run import RunRecord
from runners.model.spec import Expectation
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import list_run_ids, read_run
from tests.support import CEILING_S, make_plan
from tui.cli import run_command
from tui.cli.schema import _FILE
from tui.snapshot.feed import SnapshotFeed
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_details import describe_details, describe_run
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import RunView, view_run

COUNT = 40
SEED = 4000
"""Of runs among which every kind of condition is met."""
GPU = AssignedGpu(0, "GPU-0", "H100", 0)
QUIET = (5.0, 60.0, 300.0, 1200.0, 4000.0)
_TIMES = re.compile(r"\d+[hms]\S*")


def write_run(state: StateDirectory, number: int, now: float) -> RunDirectory:
    """A live run as its supervisor, its program and perhaps its watcher have left it."""
    chance = random.Random(number + SEED)
    run = state.run(f"20261120-101500-demo-{number:04x}")
    run.path.mkdir(parents=True)
    started = now - chance.choice((30.0, 20_000.0))
    expect = chance.choice((Expectation(), Expectation((60.0, None), None, 100.0)))
    plan = _plan(run, started, expect, chance.random() < 0.5)
    run.plan.write_bytes(msgspec.json.encode(plan))
    record = RunRecord(State.RUNNING, host=host_name(), boot_id=boot_id(), started=started)
    run.state.write_bytes(msgspec.json.encode(record))
    quiet = min(chance.choice(QUIET), now - started)
    if chance.random() < 0.8:
        rate = chance.choice((99.0, 85.0, 50.0))
        loss = chance.choice(("0.5", "nan"))
        lines = [f"step {n} loss {loss} samples_per_s {rate}" for n in range(1, 20)]
        run.output.write_text("\n".join(lines) + "\n")
        os.utime(run.output, (now - quiet, now - quiet))
    if plan.gpus:
        use = GpuUse(0, "GPU-0", "H100", 0, mean_utilization=chance.choice((30.0, 90.0)))
        usage = RunUsage(run.id, now, (use,))
        (run.path / "usage.json").write_bytes(msgspec.json.encode(usage))
    if chance.random() < 0.5:
        condition = chance.choice(list(Condition))
        found = Health(condition, "as its watcher found", now - 30, now - chance.choice((5, 500)))
        run.health.write_bytes(msgspec.json.encode(found))
    if chance.random() < 0.4:
        alert = {"time": now - 100, "type": "alert", "text": "loss flat: it was then"}
        line = alert | {"condition": str(Condition.FLAT)}
        run.supervisor_events.write_text(json.dumps(line) + "\n")
    return run


def _plan(run: RunDirectory, started: float, expect: Expectation, with_gpu: bool) -> LaunchPlan:
    origin = Origin("anna", host_name(), boot_id(), started)
    gpus = (GPU,) if with_gpu else ()
    return make_plan(run.id, origin=origin, directory=str(run.path), expect=expect, gpus=gpus)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path_factory.mktemp("state")).create()
    with ExitStack() as stack:
        for number in range(COUNT):
            run = write_run(state, number, time.time())
            state.live_marker(run.id).touch()
            for lock in (run.supervisor_lock, run.run_lock):
                descriptor = acquire(lock)
                assert descriptor is not None
                stack.callback(os.close, descriptor)
        yield state


def views(state: StateDirectory) -> list[RunView]:
    return [view_run(read_run(state, run_id)) for run_id in list_run_ids(state)]


def said(health: dict[str, Any] | None) -> tuple[str, str] | None:
    """Condition and words; durations differ, since every surface is asked at another moment."""
    return None if health is None else (health["condition"], _TIMES.sub("T", health["message"]))


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run_command(list(words)) == 0
    return json.loads(capsys.readouterr().out)


def test_every_surface_says_the_same_of_every_run(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(state.root))
    listed = {run["id"]: run for run in asked(capsys, "list", "--all", "--json")}
    snapshot = SnapshotFeed(state, read_only=True).first_snapshot(CEILING_S)
    assert snapshot is not None
    shown = {view.run.id: view for view in snapshot.runs}
    found = set()
    for view in views(state):
        name = view.run.id
        health = to_json(view)["health"]
        assert health is not None and view.health is not None
        answers = (
            listed[name]["health"],
            asked(capsys, "status", name, "--json")["health"],
            tui.api.RunHandle(name, state).to_json()["health"],
        )
        assert [said(answer) for answer in answers] == [said(health)] * len(answers), name
        # The first look of a panel reads no output: it says nothing rather than something else.
        assert said(to_json(shown[name])["health"]) in (said(health), None)
        row = row_of_view(view)
        assert row.doing is view.health.condition
        remarkable = view.health.sentence if view.health.condition.is_remarkable else ""
        assert row.remark.removeprefix("⚠ ") == remarkable
        doing = dict(describe_run(view))["doing"]
        assert doing == dict(describe_details(view, state)[0][1])["doing"]
        assert doing.removeprefix("⚠ ") in (view.health.sentence, view.health.message)
        found.add(view.health.condition)
    assert found >= {
        Condition.NOT_FINITE,
        Condition.EXPECTATION,
        Condition.SILENT,
        Condition.PROGRESSING,
        Condition.WARMING,
    }


def test_a_silent_run_is_never_called_progressing(state: StateDirectory) -> None:
    """Where no watcher has judged lately: its words are its own."""
    for view in views(state):
        folder = Path(view.run.directory)
        found = read_health(folder)
        if found is not None and time.time() - found.time < 60:
            continue
        output = folder / "output.log"
        if output.exists() and time.time() - output.stat().st_mtime > 200:
            assert view.health is not None
            assert view.health.condition is not Condition.PROGRESSING


def test_what_held_once_is_not_in_the_row(state: StateDirectory) -> None:
    judged = [view for view in views(state) if view.alerts]
    assert judged
    for view in judged:
        row = row_of_view(view)
        assert "it was then" not in row.remark
        assert any("it was then" in value for _, value in describe_run(view))


def test_the_schema_of_answers_knows_every_condition() -> None:
    schema = json.loads(_FILE.read_text())
    text = json.dumps(schema)
    assert [name for name in Condition if json.dumps(str(name)) not in text] == []
