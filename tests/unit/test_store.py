"""Runs as they lie on disk: found by any of their names, and their status derived from records,
locks and host.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.host.identity import boot_id, host_name
from runners.host.locks import acquire
from runners.model.endings import Ending, EndingCause
from runners.model.errors import NotFound, WrongInput
from runners.model.plan import Origin
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import find_run, find_runs, list_runs, read_run
from tests.command_text import did_you_mean
from tests.support import begun, make_plan

RUN = "20261120-101500-demo-7f3a"


@pytest.fixture
def state() -> StateDirectory:
    return StateDirectory().create()


def put(
    state: StateDirectory,
    run_id: str = RUN,
    record: RunRecord | None = None,
    live: bool = True,
    **plan: Any,
) -> RunDirectory:
    """A run's directory with a plan of this host and boot, and a record if one is given."""
    run = state.run(run_id)
    run.path.mkdir()
    plan.setdefault("origin", Origin("anna", host_name(), boot_id(), 1000.0))
    run.plan.write_bytes(msgspec.json.encode(make_plan(run_id, **plan)))
    if record is not None:
        run.state.write_bytes(msgspec.json.encode(record))
    if live:
        state.live_marker(run_id).touch()
    return run


@contextmanager
def held(*paths: os.PathLike[str]) -> Iterator[None]:
    """Locks held as another process would hold them."""
    with ExitStack() as stack:
        for path in paths:
            descriptor = acquire(path)  # type: ignore[arg-type]
            assert descriptor is not None
            stack.callback(os.close, descriptor)
        yield


def record(recorded: State = State.RUNNING, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {"host": host_name(), "boot_id": boot_id(), "started": 1001.0}
    return RunRecord(recorded, **(fields | changes))


# ── the status, derived ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state_then", [State.DONE, State.FAILED, State.STOPPED, State.LOST])
@pytest.mark.parametrize("locked", [True, False])
def test_a_recorded_ending_stands_whatever_the_locks_say(
    state: StateDirectory, state_then: State, locked: bool
) -> None:
    ending = Ending(cause=EndingCause.GUARD, detail="as recorded")
    run = put(state, record=record(state_then, ending=ending))
    with held(*([run.supervisor_lock, run.run_lock] if locked else [])):
        found = read_run(state, RUN)
    assert (found.state, found.ending, found.is_live) == (state_then, ending, False)
    assert found.reason == "guard: as recorded"


@pytest.mark.parametrize("recorded", [State.STARTING, State.RUNNING, State.STOPPING])
@pytest.mark.parametrize("program", [True, False])
def test_a_held_supervisor_lock_makes_the_record_true(
    state: StateDirectory, recorded: State, program: bool
) -> None:
    run = put(state, record=record(recorded))
    with held(run.supervisor_lock, *([run.run_lock] if program else [])):
        assert read_run(state, RUN).state is recorded


def test_before_the_first_record_a_run_is_starting(state: StateDirectory) -> None:
    run = put(state)
    with held(run.supervisor_lock, run.run_lock):
        assert read_run(state, RUN).state is State.STARTING


@pytest.mark.parametrize("recorded", [State.STARTING, State.RUNNING, State.STOPPING])
def test_without_supervisor_but_with_its_lock_held_a_run_is_orphaned(
    state: StateDirectory, recorded: State
) -> None:
    run = put(state, record=record(recorded))
    with held(run.run_lock):
        found = read_run(state, RUN)
    assert found.state is State.ORPHANED and found.is_live
    assert "will be adopted" in found.reason


def test_a_process_with_the_mark_alone_makes_it_orphaned_too(state: StateDirectory) -> None:
    put(state, record=record())
    marked = begun(["sleep", "60"], env=os.environ | {"FRESNEL_RUN_ID": RUN})
    try:
        assert read_run(state, RUN).state is State.ORPHANED
    finally:
        marked.kill()
        marked.wait()


def test_with_nothing_left_a_run_is_lost(state: StateDirectory) -> None:
    put(state, record=record())
    found = read_run(state, RUN)
    assert (found.state, found.is_live) == (State.LOST, False)
    assert "exit code unknown" in found.reason


def test_with_an_exit_status_waiting_it_is_about_to_be_recorded(state: StateDirectory) -> None:
    run = put(state, record=record())
    run.exit.write_text("0\n")
    found = read_run(state, RUN)
    assert found.is_live and "about to be recorded" in found.reason


@pytest.mark.parametrize("recorded", [None, RunRecord(State.STARTING)])
def test_a_launch_cut_short_is_adopted(state: StateDirectory, recorded: RunRecord | None) -> None:
    put(state, record=recorded)
    found = read_run(state, RUN)
    assert found.state is State.STARTING and "it will be adopted and goes on" in found.reason


def test_another_boot_means_lost_even_if_locks_seem_held(state: StateDirectory) -> None:
    run = put(state, record=record(boot_id="another boot"))
    with held(run.run_lock):
        found = read_run(state, RUN)
    assert (found.state, found.ending) == (State.LOST, {"cause": EndingCause.REBOOTED})


@pytest.mark.parametrize("recorded", [State.STARTING, State.RUNNING, State.STOPPING])
def test_a_run_of_another_host_is_as_recorded_there(
    state: StateDirectory, recorded: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(state, record=record(recorded))
    here = host_name()
    monkeypatch.setenv("FRESNEL_HOST", "another-box")
    found = read_run(state, RUN)
    assert found.state is recorded and found.is_live
    assert found.reason == f"runs on host {here}; as recorded there"


# ── damage ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"null", b"[]", b'{"state": "flying"}', b"\xff\xfe", b'{"state": 3}']
)
@pytest.mark.parametrize(
    ("code", "ending"),
    [("0\n", State.DONE), ("3\n", State.FAILED), (None, State.LOST), ("x", State.LOST)],
)
def test_a_damaged_record_of_an_ended_run_is_said_so(
    state: StateDirectory, damage: bytes, code: str | None, ending: State
) -> None:
    run = put(state, live=False)
    run.state.write_bytes(damage)
    if code is not None:
        run.exit.write_text(code)
    found = read_run(state, RUN)
    assert (found.state, found.is_live) == (ending, False)
    assert "state.json is damaged" in found.reason


def test_a_state_json_that_cannot_be_read_at_all(state: StateDirectory) -> None:
    run = put(state, live=False)
    run.state.mkdir()
    assert "state.json is damaged" in read_run(state, RUN).reason


def test_half_a_run_directory_is_a_run_with_a_reason(state: StateDirectory) -> None:
    state.run(RUN).path.mkdir()
    found = read_run(state, RUN)
    assert (found.state, found.preset, found.plan) == (State.FAILED, "", None)
    assert found.created > 0


def test_a_stray_file_among_the_runs_hides_none(state: StateDirectory) -> None:
    put(state, record=record(State.DONE))
    (state.runs / "notes.txt").write_text("mine")
    (state.runs / ".hidden").write_text("mine")
    assert RUN in {run.id for run in list_runs(state)}
    assert ".hidden" not in {run.id for run in list_runs(state)}


# ── finding ───────────────────────────────────────────────────────────────────────────────────────

OLD, MID, NEW = (
    "20261120-101500-alpha-0001",
    "20261120-101501-beta-0002",
    "20261121-090000-alpha-0003",
)


@pytest.fixture
def three(state: StateDirectory) -> StateDirectory:
    for run_id, name, preset in (
        (OLD, "alpha", "alpha"),
        (MID, "beta", "alpha"),
        (NEW, "Mein Lauf ü/1", "gamma-2"),
    ):
        put(state, run_id, record(State.DONE), live=False, name=name, preset=preset)
    return state


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        (OLD, OLD),
        ("last", NEW),
        ("20261121", NEW),
        ("20261120-101501", MID),
        ("0002", MID),
        ("beta", MID),
        ("alpha", MID),
        ("gamma-2", NEW),
        ("Mein Lauf ü/1", NEW),
    ],
)
def test_a_run_is_found_by_id_prefix_name_preset_or_as_the_last(
    three: StateDirectory, name: str, run_id: str
) -> None:
    assert find_run(three, name).id == run_id


def test_an_ambiguous_prefix_is_refused_with_the_newest(three: StateDirectory) -> None:
    with pytest.raises(WrongInput) as caught:
        find_run(three, "20261120")
    assert "the beginning of 2 runs" in str(caught.value) and MID in str(caught.value)


@pytest.mark.parametrize("name", ["nope", "alph", "20251120", "-alpha-", "/", "../runs"])
def test_a_run_that_is_not_there_is_not_found(three: StateDirectory, name: str) -> None:
    with pytest.raises(NotFound, match=f"no run `{name}`"):
        find_run(three, name)


@pytest.mark.parametrize(
    ("name", "meant"), [("alph", "alpha"), ("gamma2", "gamma-2"), ("nope", "")]
)
def test_the_run_that_was_nearly_named_is_proposed(
    three: StateDirectory, name: str, meant: str
) -> None:
    with pytest.raises(NotFound) as caught:
        find_run(three, name)
    hint = caught.value.hint or ""
    assert did_you_mean(meant) in hint if meant else did_you_mean("").rstrip("`") not in hint


def test_an_empty_name_stops_nobody(state: StateDirectory) -> None:
    put(state, record=record(State.DONE))
    with pytest.raises(WrongInput, match="a run's name is empty"):
        find_run(state, "")


def test_without_runs_nothing_is_the_last(state: StateDirectory) -> None:
    for name in ("last", "x"):
        with pytest.raises(NotFound, match="newest: none yet"):
            find_run(state, name)


def test_a_run_named_twice_comes_once(three: StateDirectory) -> None:
    assert [run.id for run in find_runs(three, ["last", NEW, "beta"])] == [NEW, MID]


def test_all_live_runs_are_listed_and_the_newest_ended(state: StateDirectory) -> None:
    for i in range(5):
        put(state, f"2026112{i}-101500-a-000{i}", record(State.DONE), live=False)
    live = put(state, "20261101-101500-old-ffff", record())
    with held(live.supervisor_lock):
        listed = [run.id for run in list_runs(state, finished=2)]
        none = [run.id for run in list_runs(state, finished=0)]
    assert listed == [live.id, "20261123-101500-a-0003", "20261124-101500-a-0004"]
    assert none == [live.id]


@pytest.mark.parametrize("target", ["nowhere", "file"])
def test_a_state_folder_that_is_none_is_said_to_be_none(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(NotADirectoryError) as caught:
        StateDirectory(tmp_path / "link").create()
    assert caught.value.filename == str(tmp_path / "link")
