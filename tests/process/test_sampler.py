"""The sampler as a real process: started, shared, killed, hung, replaced, and ended when nobody
needs it.
"""

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from runners.gpus import client as reading
from runners.gpus.sampler_lock import SamplerOwner, host_name, owner_of
from runners.host.locks import acquire, is_held
from runners.host.procfs import mark_of, start_ticks
from runners.model.gpus import GpuReading
from runners.state.layout import StateDirectory
from tests.command_text import DRIVER_IS_SILENT, RELOAD_THE_DRIVER
from tests.stubs import nvml as stub
from tests.support import CEILING_S, begun

RUN = "20261121-101500-gaussian-7f3a"

Samplers = list["subprocess.Popen[bytes]"]


def _until(found: Callable[[], object], what: str) -> None:
    """Poll until `found` is true; fail after a ceiling no healthy machine reaches."""
    deadline = time.monotonic() + CEILING_S
    while not found():
        assert time.monotonic() < deadline, f"never saw: {what}"
        time.sleep(0.01)


def _owner(state: StateDirectory) -> SamplerOwner:
    _until(lambda: owner_of(state), "a sampler that holds the lock")
    owner = owner_of(state)
    assert owner is not None
    return owner


def _number_of_readings(state: StateDirectory, count: int) -> None:
    """Wait for `count` new readings without asking for one."""
    seen: set[int] = set()

    def enough() -> bool:
        if state.gpu_reading.exists():
            seen.add(state.gpu_reading.stat().st_mtime_ns)
        return len(seen) > count

    _until(enough, f"{count} new readings")


def _allow_another_start(state: StateDirectory) -> None:
    reading._starts[state.root]._pause_s = 0.1


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xMI300X")
    monkeypatch.setattr(reading, "FIRST_DELAY_S", 600.0)
    return StateDirectory(tmp_path / "state").create()


@pytest.fixture(autouse=True)
def samplers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Samplers]:
    """Every sampler started by the test, ended after it."""
    started: Samplers = []
    start = reading._start

    def remember(state: StateDirectory) -> "subprocess.Popen[bytes]":
        started.append(start(state))
        return started[-1]

    monkeypatch.setattr(reading, "_start", remember)
    yield started
    for child in started:
        child.kill()
        child.wait()


def test_the_record_of_a_dead_sampler_is_not_that_of_the_next(tmp_path: Path) -> None:
    """Which holds the lock for a moment before it writes its own."""
    state = StateDirectory(tmp_path)
    state.readings.mkdir(parents=True)
    descriptor = acquire(state.sampler_lock)
    assert descriptor is not None
    child = subprocess.Popen(["sleep", "600"])
    dead = SamplerOwner(child.pid, start_ticks(child.pid), host_name(), "nvml")
    child.kill()
    child.wait()
    for owner, known in ((dead, False), (msgspec.structs.replace(dead, host="another"), True)):
        state.sampler_lock.write_bytes(msgspec.json.encode(owner))
        assert (owner_of(state) is not None) == known
    os.close(descriptor)


def test_the_first_read_starts_a_sampler_that_shares_nothing_with_us(
    state: StateDirectory, samplers: Samplers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_RUN_ID", RUN)
    found = reading.read_gpus(state, CEILING_S)
    assert (found.backend, found.host, found.problem) == ("simulated", host_name(), None)
    assert len(found.gpus) == 8 and all(gpu.simulated for gpu in found.gpus)
    assert found.cpu.memory_total and found.cpu.disk_total and found.cpu.cpu_count
    assert stat.S_IMODE(state.gpu_reading.stat().st_mode) == 0o600
    (sampler,) = samplers
    assert _owner(state).pid == sampler.pid == os.getsid(sampler.pid)
    assert mark_of(sampler.pid) is None
    assert Path(f"/proc/{sampler.pid}/cwd").readlink() == Path("/")
    again = reading.read_gpus(state, CEILING_S)
    assert len(samplers) == 1 and again.time >= found.time


def test_host_cpu_use_comes_with_the_second_reading(state: StateDirectory) -> None:
    assert reading.read_gpus(state, CEILING_S).cpu.cpu_percent is None

    def measured() -> bool:
        return reading.read_gpus(state, CEILING_S).cpu.cpu_percent is not None

    _until(measured, "a reading with CPU use")


def test_a_lease_makes_its_gpu_work(state: StateDirectory) -> None:
    run = state.run(RUN)
    run.path.mkdir()
    gpu = {"uuid": "SIM-MI300X-3", "logical": 0}
    run.plan.write_text(json.dumps({"spec": {"preset": "gaussian"}, "gpus": [gpu]}))
    os.utime(run.plan, (time.time() - 60, time.time() - 60))
    marked = begun(["sleep", "60"], env=os.environ | {"FRESNEL_RUN_ID": RUN})
    lock = acquire(run.run_lock)
    assert lock is not None
    try:
        state.live_marker(RUN).touch()
        found = reading.read_gpus(state, CEILING_S)
    finally:
        marked.kill()
        marked.wait()
        os.close(lock)
    busy = found.gpus[3]
    assert busy.utilization is not None and busy.utilization > 80
    assert [(process.pid, process.run) for process in busy.processes] == [(marked.pid, RUN)]
    assert all(
        gpu.processes == () and (gpu.utilization or 0) <= 2 for gpu in found.gpus if gpu is not busy
    )


def test_of_five_started_at_once_one_lives(state: StateDirectory, samplers: Samplers) -> None:
    for _ in range(5):
        reading._start(state)
    _until(lambda: sum(child.poll() is None for child in samplers) == 1, "one sampler left")
    (survivor,) = (child for child in samplers if child.poll() is None)
    assert _owner(state).pid == survivor.pid
    assert [child.returncode for child in samplers if child is not survivor] == [0] * 4


def test_a_killed_sampler_is_followed_by_another(state: StateDirectory, samplers: Samplers) -> None:
    first = reading.read_gpus(state, CEILING_S)
    samplers[0].kill()
    samplers[0].wait()
    _allow_another_start(state)

    def renewed() -> bool:
        reading.ensure_sampler(state)
        found = reading.latest(state)
        return found is not None and found.time > first.time and owner_of(state) is not None

    _until(renewed, "a reading by another sampler")
    # On a busy machine two may be started, of which the one that is too late leaves.
    assert _owner(state).pid in {sampler.pid for sampler in samplers[1:]}


def test_sigterm_ends_it_and_frees_the_lock(state: StateDirectory, samplers: Samplers) -> None:
    reading.read_gpus(state, CEILING_S)
    samplers[0].terminate()
    assert samplers[0].wait(CEILING_S) == -signal.SIGTERM
    assert not is_held(state.sampler_lock)
    assert state.sampler_log.read_text() == ""


def test_another_setting_replaces_the_sampler(
    state: StateDirectory, samplers: Samplers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(reading.read_gpus(state, CEILING_S).gpus) == 8
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    _allow_another_start(state)
    found = reading.read_gpus(state, CEILING_S)
    assert [gpu.name for gpu in found.gpus] == ["NVIDIA H100 80GB HBM3"] * 2
    assert samplers[0].wait(CEILING_S) == -signal.SIGTERM


def test_it_ends_when_nobody_reads(
    state: StateDirectory, samplers: Samplers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_SAMPLER_LINGER_S", "0.1")
    reading.ensure_sampler(state)
    assert samplers[0].wait(CEILING_S) == 0
    assert state.gpu_reading.exists()


@pytest.mark.parametrize("held", ["run_lock", "supervisor_lock"])
def test_it_goes_on_while_a_run_lives(
    state: StateDirectory, samplers: Samplers, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    monkeypatch.setenv("FRESNEL_SAMPLER_LINGER_S", "0.1")
    run = state.run(RUN)
    run.path.mkdir()
    state.live_marker(RUN).touch()
    lock = acquire(getattr(run, held))
    assert lock is not None
    try:
        reading.ensure_sampler(state)
        _number_of_readings(state, 2)
        assert samplers[0].poll() is None
    finally:
        os.close(lock)
    assert samplers[0].wait(CEILING_S) == 0


def test_it_ends_when_its_folder_is_gone(state: StateDirectory, samplers: Samplers) -> None:
    reading.read_gpus(state, CEILING_S)
    state.root.rename(state.root.with_name("moved"))
    assert samplers[0].wait(CEILING_S) == 0
    assert not state.root.exists()


def test_a_wrong_setting_ends_it_with_the_reason(
    state: StateDirectory, samplers: Samplers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "8xMI300X")
    assert reading._start(state).wait(CEILING_S) == 2
    assert "sim:8xMI300X" in state.sampler_log.read_text()


def test_a_long_log_is_begun_anew(state: StateDirectory, samplers: Samplers) -> None:
    state.sampler_log.write_bytes(b"x" * (reading.LOG_LIMIT + 1))
    reading._start(state)
    assert state.sampler_log.stat().st_size == 0


@pytest.fixture
def scene(state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenario of a stand-in NVML that samplers started now will load."""
    monkeypatch.setenv("FRESNEL_SAMPLER_DEADLINE_S", "0.5")
    return stub.install(monkeypatch, tmp_path, "gpu 0 utilization 50\ngpu 1 utilization 60\n")


def _utilizations(found: GpuReading) -> list[float | None]:
    return [gpu.utilization for gpu in found.gpus]


def test_a_hung_driver_ends_the_sampler_and_never_holds_up_a_reader(
    state: StateDirectory, scene: Path, samplers: Samplers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _utilizations(reading.read_gpus(state, CEILING_S)) == [50, 60]
    stub.write_scenario(scene, "gpu 0 utilization 50\ngpu 1 power hang\n")
    assert samplers[0].wait(CEILING_S) == 1
    assert "Timeout" in state.sampler_log.read_text()

    monkeypatch.setattr(reading, "FRESH_S", 0.0)
    monkeypatch.setattr(reading, "STALE_S", 0.0)
    stale = reading.read_gpus(state, patience_s=0)
    assert _utilizations(stale) == [50, 60]
    assert stale.problem is not None and stale.problem.startswith("GPU readings stale since ")
    assert "driver" in stale.problem

    stub.write_scenario(scene, "gpu 0 utilization 70\n")
    monkeypatch.setattr(reading, "FRESH_S", 3.0)
    monkeypatch.setattr(reading, "STALE_S", 5.0)
    _allow_another_start(state)

    def healed() -> bool:
        found = reading.read_gpus(state, patience_s=0)
        reading.ensure_sampler(state)
        return _utilizations(found) == [70] and found.problem is None

    _until(healed, "a reading after the driver answers again")


def test_a_driver_that_hangs_at_the_start_leaves_a_problem(
    state: StateDirectory, scene: Path, samplers: Samplers
) -> None:
    stub.write_scenario(scene, "init hang\n")
    reading.ensure_sampler(state)
    _owner(state)
    found = reading.read_gpus(state, patience_s=0)
    assert found.gpus == () and found.problem is not None
    assert f"{DRIVER_IS_SILENT} (sampler is process {samplers[0].pid}" in found.problem
    assert samplers[0].wait(CEILING_S) == 1


def test_sigterm_ends_a_sampler_that_hangs_in_the_driver(
    state: StateDirectory, scene: Path, samplers: Samplers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_SAMPLER_DEADLINE_S", "60")
    stub.write_scenario(scene, "init hang\n")
    reading.ensure_sampler(state)
    _owner(state)
    samplers[0].terminate()
    assert samplers[0].wait(CEILING_S) == -signal.SIGTERM


def test_a_gpu_that_falls_off_the_bus_degrades_while_sampling(
    state: StateDirectory, scene: Path
) -> None:
    assert _utilizations(reading.read_gpus(state, CEILING_S)) == [50, 60]
    stub.write_scenario(scene, "gpu 0 lost\ngpu 1 utilization 61\n")

    def degraded() -> bool:
        return _utilizations(reading.read_gpus(state, CEILING_S)) == [None, 61]

    _until(degraded, "a lost GPU beside a healthy one")
    lost = reading.read_gpus(state, CEILING_S).gpus[0]
    assert (
        lost.uuid == "GPU-stub-0"
        and lost.error is not None
        and lost.error.startswith("GPU is lost")
    )


def test_a_broken_driver_is_a_problem_not_an_error(state: StateDirectory, scene: Path) -> None:
    stub.write_scenario(scene, "init 18\n")
    found = reading.read_gpus(state, CEILING_S)
    assert (
        found.gpus == ()
        and found.problem is not None
        and "driver/library version mismatch" in found.problem
        and RELOAD_THE_DRIVER in found.problem
    )
