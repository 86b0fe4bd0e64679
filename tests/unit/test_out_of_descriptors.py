"""A process that may open nothing more has not seen that nobody holds a lock, or that no run lives."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from runners.host.identity import boot_id, host_name
from runners.host.locks import acquire, is_held
from runners.model.plan import AssignedGpu, Origin
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import held_leases, live_run_ids
from runners.state.runs import read_run
from tests.support import make_plan


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run whose locks are held."""
    state = StateDirectory(tmp_path / "state").create()
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir()
    origin = Origin("anna", host_name(), boot_id(), 1000.0)
    plan = make_plan(run.id, gpus=(AssignedGpu(0, "GPU-0", "H100", 0),), origin=origin)
    run.plan.write_bytes(msgspec.json.encode(plan))
    record = RunRecord(State.RUNNING, host=host_name(), boot_id=boot_id(), started=1.0)
    run.state.write_bytes(msgspec.json.encode(record))
    for lock in (run.run_lock, run.supervisor_lock):
        assert acquire(lock) is not None
    return run


def test_a_lock_that_cannot_be_looked_at_is_held(run: RunDirectory, tmp_path: Path) -> None:
    with no_more_descriptors():
        assert is_held(run.run_lock)
    assert not is_held(tmp_path / "absent.lock")


@pytest.mark.parametrize("marker", ["live_marker", "held_marker"])
def test_leases_that_cannot_be_looked_at_are_no_free_gpus(run: RunDirectory, marker: str) -> None:
    kept = getattr(run.home, marker)(run.id)
    kept.touch()
    with no_more_descriptors(), pytest.raises(OSError, match="open files"):
        held_leases(run.home)
    assert kept.exists() and [lease.run for lease in held_leases(run.home)["GPU-0"]] == [run.id]


def test_runs_that_cannot_be_looked_at_have_not_ended(run: RunDirectory) -> None:
    run.home.live_marker(run.id).touch()
    with no_more_descriptors():
        with pytest.raises(OSError, match="open files"):
            live_run_ids(run.home)
        assert read_run(run.home, run.id).is_live
    assert live_run_ids(run.home) == [run.id]


def test_a_plan_that_cannot_be_read_for_a_moment_is_no_plan_without_gpus(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.home.held_marker(run.id).touch()
    names = [run.id]
    monkeypatch.setattr("runners.state.leases._names", lambda folder: list(names))
    with no_more_descriptors(), pytest.raises(OSError, match="open files"):
        held_leases(run.home)
    assert run.home.held_marker(run.id).exists()
