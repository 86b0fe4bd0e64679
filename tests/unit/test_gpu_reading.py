"""What a reader makes of `gpus.json`, without any sampler."""

import time
from pathlib import Path

import msgspec
import pytest

from runners.gpus import client as reading
from runners.gpus.sampler_lock import host_name
from runners.model.errors import WrongInput
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.state.layout import StateDirectory

GPU = GpuSnapshot(index=0, uuid="GPU-1", name="NVIDIA H100", vendor="nvidia", utilization=None)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    return StateDirectory(tmp_path / "state").create()


def _leave(state: StateDirectory, **changes: object) -> GpuReading:
    """Write a reading as a sampler would have."""
    fields = {"time": time.time(), "host": host_name(), "backend": "nvml", "gpus": (GPU,)} | changes
    left = msgspec.convert(fields, GpuReading)
    state.gpu_reading.write_bytes(msgspec.json.encode(left))
    return left


def _forbid_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ensure_sampler", lambda state: None)


def test_the_latest_reading_comes_back_whole_and_only_an_announced_reader_is_wanted(
    state: StateDirectory,
) -> None:
    left = _leave(state)
    assert reading.latest(state) == left
    assert not state.sampler_wanted.exists()
    reading.announce_reader(state)
    assert state.sampler_wanted.exists()


@pytest.mark.parametrize("text", [b"", b"{", b'{"time": "x"}'])
def test_a_broken_file_is_no_reading(state: StateDirectory, text: bytes) -> None:
    state.gpu_reading.write_bytes(text)
    assert reading.latest(state) is None


def test_readings_of_other_hosts_and_settings_are_not_ours(state: StateDirectory) -> None:
    assert reading.latest(state) is None
    _leave(state, host="elsewhere")
    assert reading.latest(state) is None
    _leave(state, setting="sim:8xH100")
    assert reading.latest(state) is None
    _leave(state, setting="none")
    assert reading.latest(state) is not None


def test_a_fresh_reading_is_returned_without_starting_anything(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_start", lambda state: pytest.fail("started a sampler"))
    left = _leave(state)
    assert reading.read_gpus(state) == left


def test_staleness_counts_both_ways(state: StateDirectory) -> None:
    now = time.time()
    assert not reading.is_stale(_leave(state, time=now - 1))
    assert reading.is_stale(_leave(state, time=now - 60))
    assert reading.is_stale(_leave(state, time=now + 60))


def test_a_stale_reading_keeps_its_gpus_and_says_since_when(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forbid_sampler(monkeypatch)
    left = _leave(state, time=time.time() - 100)
    found = reading.read_gpus(state, patience_s=0)
    since = time.strftime("%H:%M:%S", time.localtime(left.time))
    (gpu,) = found.gpus
    assert msgspec.structs.replace(gpu, unread=None) == GPU and found.time == left.time
    assert gpu.unread is not None and since in gpu.unread
    assert found.problem is not None and found.problem.startswith(
        f"GPU readings stale since {since}: "
    )
    assert str(state.sampler_log) in found.problem


def test_no_reading_at_all_is_a_reading_with_a_problem(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forbid_sampler(monkeypatch)
    found = reading.read_gpus(state, patience_s=0)
    assert (
        found.gpus == ()
        and found.problem is not None
        and found.problem.startswith("No GPU reading yet: ")
    )


def test_a_state_folder_of_another_host_is_named(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forbid_sampler(monkeypatch)
    _leave(state, host="elsewhere")
    problem = reading.read_gpus(state, patience_s=0).problem
    assert problem is not None and "elsewhere" in problem and "FRESNEL_STATE_DIR" in problem


def test_a_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    (tmp_path / "file").write_text("")
    found = reading.read_gpus(StateDirectory(tmp_path / "file" / "state"))
    assert found.problem is not None and "cannot be started" in found.problem


def test_a_wrong_setting_is_an_error(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "8xH100")
    with pytest.raises(WrongInput, match="8xH100"):
        reading.read_gpus(state)


def test_starts_come_seldom_and_ever_more_seldom_for_samplers_that_die_young(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 1000.0
    starts = reading._keep_alive(state)
    begun: list[StateDirectory] = []
    monkeypatch.setattr(reading, "_start", begun.append)
    waits = []
    for _ in range(7):
        assert starts.pause_over(clock)
        starts.start(clock)
        waits.append(next(s for s in (2, 4, 8, 16, 30) if starts.pause_over(clock + s)))
        assert not starts.pause_over(clock + waits[-1] - 0.1)
        clock += waits[-1]
    assert waits == [2, 4, 8, 16, 30, 30, 30] and len(begun) == 7
    clock += 60
    starts.start(clock)
    assert starts.pause_over(clock + 2) and not starts.pause_over(clock + 1.9)
