"""What the sampler writes beside gpus.json: the last ten minutes, and every live run's use of its
GPUs.
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.gpus.compaction import FULL, compact
from runners.gpus.usage import (
    interval_file,
    read_recent,
    read_usage,
    recent_files,
    usage_file,
)
from runners.gpus.usage_recorder import UsageRecorder
from runners.host.identity import host_name
from runners.host.locks import acquire
from runners.model.gpus import GpuProcess, GpuReading, GpuSnapshot, HostSnapshot, Xid
from runners.state.layout import RunDirectory, StateDirectory
from tests.support import begun
from tui.views.runs.run_text import energy_pairs

RUN = "20261121-101500-gaussian-7f3a"
GIB = 1 << 30


class Stage:
    """A state folder, runs that hold GPUs in it, and a clock that is moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.state = StateDirectory(folder / "state").create()
        self.now = 5000.0
        self.locks: dict[str, int] = {}
        self.history = self.renewed()

    def renewed(self) -> UsageRecorder:
        """A history as another sampler would begin it."""
        return UsageRecorder(self.state, lambda: self.now)

    def launch(self, *uuids: str, run_id: str = RUN, host: str = "", **plan: Any) -> RunDirectory:
        """A live run that holds these GPUs by its lock."""
        run = self.state.run(run_id)
        run.path.mkdir()
        gpus = [{"index": i, "uuid": u, "name": "H100", "logical": i} for i, u in enumerate(uuids)]
        run.plan.write_text(
            json.dumps({"gpus": gpus, "origin": {"host": host or host_name()}, **plan})
        )
        self.state.live_marker(run_id).touch()
        lock = acquire(run.run_lock)
        assert lock is not None
        self.locks[run_id] = lock
        return run

    def end(self, run_id: str = RUN) -> None:
        """Let go of the run's lock, and record its ending."""
        os.close(self.locks.pop(run_id))
        self.state.live_marker(run_id).unlink()

    def pass_by(self, seconds: int, *gpus: GpuSnapshot) -> None:
        """Take a reading every second."""
        for _ in range(seconds):
            self.now += 1.0
            self.history.note(
                GpuReading(self.now, "here", "nvml", gpus, HostSnapshot(cpu_percent=12.5))
            )


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    for lock in made.locks.values():
        os.close(lock)


def gpu(uuid: str = "GPU-a", own: int | None = 60 * GIB, **changes: Any) -> GpuSnapshot:
    fields: dict[str, Any] = {
        "index": 7,
        "uuid": uuid,
        "name": "H100",
        "vendor": "nvidia",
        "utilization": 90.0,
        "memory_used": 61 * GIB,
        "memory_total": 80 * GIB,
        "power_w": 360.0,
        "temperature_c": 70.0,
        "processes": (GpuProcess(1, memory_used=own, run=RUN),),
    }
    return GpuSnapshot(**(fields | changes))


def lines(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in interval_file(run.path).read_text().splitlines()]


def test_a_run_s_peak_mean_and_energy_are_kept_with_it(stage: Stage) -> None:
    run = stage.launch("GPU-a", "GPU-b")
    other = gpu("GPU-b", utilization=None, power_w=None, processes=(), memory_used=None)
    stage.pass_by(5, gpu(), other)
    stage.pass_by(5, gpu(own=20 * GIB, utilization=50.0, temperature_c=75.0), other)
    first, second = read_usage(run.path)
    assert (first.index, first.uuid, first.logical, first.seconds) == (0, "GPU-a", 0, 10)
    assert (first.peak_memory, first.memory_total, first.whole_gpu) == (60 * GIB, 80 * GIB, False)
    assert (first.mean_utilization, first.energy_wh, first.peak_temperature_c) == (70.0, 1.0, 75.0)
    assert (second.mean_utilization, second.energy_wh, second.peak_memory) == (None, None, None)
    assert not first.simulated and not first.shared
    (line,) = lines(run)
    assert line["time"] == stage.now and line["seconds"] == 10 and "simulated" not in line
    assert line["gpus"][0] == {
        "index": 0,
        "uuid": "GPU-a",
        "utilization": 70.0,
        "memory": 60 * GIB,
        "power_w": 360.0,
        "temperature_c": 75.0,
    }
    assert {
        stat.S_IMODE(path.stat().st_mode)
        for path in (usage_file(run.path), interval_file(run.path))
    } == {0o600}


def test_energy_is_the_counter_s_where_there_is_one_and_power_s_where_it_jumps(
    stage: Stage,
) -> None:
    run = stage.launch("GPU-a")
    for joules in (1000.0, 1720.0, 2440.0, 5.0, 725.0):
        stage.pass_by(1, gpu(energy_j=joules))
    stage.pass_by(5, gpu(energy_j=None))
    (use,) = read_usage(run.path)
    # The first reading, the counter's fall and five readings without it: 7 s at 360 W.
    assert use.energy_wh == pytest.approx((3 * 720 + 7 * 360) / 3600)
    assert (use.counted_s, use.energy_s) == (3, 10)
    assert energy_pairs([use]) == [("energy", "1.3 Wh by power readings")]
    counted = msgspec.structs.replace(use, counted_s=10.0)
    assert energy_pairs([counted, counted])[0][1] == "2.6 Wh by the GPUs' own counters"
    assert energy_pairs([counted, msgspec.structs.replace(use, energy_wh=None)])[0][1].endswith(
        ", 1 GPU unknown"
    )
    assert energy_pairs([]) == []


def test_an_ending_writes_what_is_left_at_once(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    stage.pass_by(13, gpu())
    stage.end()
    stage.pass_by(1, gpu(utilization=0.0))
    assert [line["seconds"] for line in lines(run)] == [10, 3]
    (use,) = read_usage(run.path)
    assert (use.seconds, use.mean_utilization) == (13, 90.0)
    stage.pass_by(20, gpu(utilization=0.0))
    assert len(lines(run)) == 2


def test_another_sampler_goes_on_where_the_first_was_killed(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    stage.pass_by(10, gpu())
    stage.history = stage.renewed()
    stage.now += 3600
    stage.pass_by(10, gpu(own=GIB, utilization=10.0))
    (use,) = read_usage(run.path)
    assert (use.seconds, use.mean_utilization, use.peak_memory) == (20, 50.0, 60 * GIB)
    assert use.energy_wh == 2.0 and len(lines(run)) == 2


def test_a_gap_is_not_counted_as_use(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    stage.pass_by(1, gpu())
    stage.now += 600
    stage.pass_by(1, gpu())
    stage.history.close()
    assert read_usage(run.path)[0].seconds == 6


def test_memory_is_the_run_s_own_or_the_whole_gpu_s_when_it_has_it_alone(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    hidden = gpu(processes=(GpuProcess(99, memory_used=60 * GIB, outside=True),))
    stage.pass_by(1, hidden)
    stage.history.close()
    (use,) = read_usage(run.path)
    assert (use.peak_memory, use.whole_gpu) == (61 * GIB, True)
    stage.pass_by(1, gpu(memory_used=79 * GIB, processes=(GpuProcess(5, "eve", "x", 18 * GIB),)))
    stage.history.close()
    assert read_usage(run.path)[0].peak_memory == 61 * GIB


def test_runs_that_share_a_gpu_say_so_and_count_their_own(stage: Stage) -> None:
    second = "20261121-101501-gaussian-8888"
    runs = [stage.launch("GPU-a"), stage.launch("GPU-a", run_id=second)]
    both = (
        GpuProcess(1, memory_used=3 * GIB, run=RUN),
        GpuProcess(2, memory_used=5 * GIB, run=second),
    )
    stage.pass_by(10, gpu(processes=both))
    found = [read_usage(run.path)[0] for run in runs]
    assert [(use.peak_memory, use.shared) for use in found] == [(3 * GIB, True), (5 * GIB, True)]
    stage.pass_by(10, gpu(processes=(), memory_used=70 * GIB))
    assert read_usage(runs[0].path)[0].peak_memory == 3 * GIB


def test_a_lost_gpu_tells_nothing_and_costs_nothing(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    stage.pass_by(5, gpu())
    stage.pass_by(5, GpuSnapshot(7, "GPU-a", "H100", "nvidia", error="GPU is lost"))
    (use,) = read_usage(run.path)
    assert (use.seconds, use.mean_utilization) == (5, 90.0)
    stage.pass_by(10)
    assert "utilization" not in lines(run)[1]["gpus"][0]


@pytest.mark.parametrize("plan", [{"host": "elsewhere"}, {"phase": "queued"}, {"gpus": []}])
def test_other_hosts_queued_and_cpu_runs_have_no_history(
    stage: Stage, plan: dict[str, Any]
) -> None:
    run = stage.launch("GPU-a", **plan)
    stage.pass_by(12, gpu())
    assert not usage_file(run.path).exists() and not interval_file(run.path).exists()


def test_a_plan_that_gets_its_gpus_later_is_followed_from_then_on(stage: Stage) -> None:
    run = stage.launch("GPU-a", phase="queued")
    stage.pass_by(12, gpu())
    before = run.plan.stat()
    run.plan.write_text(run.plan.read_text().replace('"queued"', '"final"'))
    # Within the same tick of the file system's clock.
    os.utime(run.plan, ns=(before.st_atime_ns, before.st_mtime_ns))
    stage.pass_by(4, gpu())
    stage.history.close()
    assert read_usage(run.path)[0].seconds == 4


def test_a_run_lives_on_by_its_mark_when_its_lock_is_free(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    marked = begun(["sleep", "60"], env=os.environ | {"FRESNEL_RUN_ID": RUN})
    try:
        os.close(stage.locks.pop(RUN))
        stage.pass_by(10, gpu())
    finally:
        marked.kill()
        marked.wait()
    assert read_usage(run.path)[0].seconds == 10
    stage.pass_by(30, gpu())
    assert read_usage(run.path)[0].seconds <= 21


def test_simulated_is_marked(stage: Stage) -> None:
    gpus = [{"index": 0, "uuid": "SIM-H100-0", "name": "H100", "logical": 0, "simulated": True}]
    run = stage.launch("SIM-H100-0", gpus=gpus)
    stage.pass_by(10, gpu("SIM-H100-0", vendor="simulated-nvidia"))
    assert read_usage(run.path)[0].simulated and lines(run)[0]["simulated"]


def test_a_removed_run_is_not_made_again(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    stage.pass_by(5, gpu())
    run.path.rename(run.path.with_name("moved"))
    stage.pass_by(10, gpu())
    assert not run.path.exists()


def test_a_damaged_summary_begins_anew(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    usage_file(run.path).write_text("{")
    assert read_usage(run.path) == ()
    stage.pass_by(10, gpu())
    assert read_usage(run.path)[0].seconds == 10


def test_the_last_ten_minutes_are_kept_and_no_more(stage: Stage) -> None:
    stage.pass_by(2000, gpu(processes=()), gpu("GPU-b", utilization=None, memory_used=None))
    found = read_recent(stage.state, stage.now)
    assert len(found) == 601
    assert found[0].time == stage.now - 600 and found[-1].time == stage.now
    assert found[-1].cpu == 12.5 and found[-1].gpus["GPU-a"].utilization == 90.0
    assert found[-1].gpus["GPU-b"].memory_used is None
    paths = recent_files(stage.state)
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]
    assert sum(len(path.read_text().splitlines()) for path in paths) < 1500


def test_a_half_written_line_is_passed_over(stage: Stage) -> None:
    stage.pass_by(3, gpu())
    with recent_files(stage.state)[0].open("ab") as file:
        file.write(b'{"time": 50')
    assert len(read_recent(stage.state, stage.now)) == 3
    assert msgspec.json.encode(read_recent(stage.state, stage.now)[0].gpus["GPU-a"]).startswith(
        b"[90.0,"
    )


def test_an_xid_is_kept_with_the_run_that_held_the_gpu_then(stage: Stage) -> None:
    old = Xid(13, stage.now - 100, "engine exception")
    run = stage.launch("GPU-a", "MIG-b")
    cut = gpu("GPU-b")
    stage.pass_by(3, gpu(xid=old), cut, gpu("MIG-b", mig_parent="GPU-b"))
    assert read_usage(run.path) == ()
    fault = Xid(79, stage.now + 1, "fell off the bus")
    lost = GpuSnapshot(7, "GPU-a", "H100", "nvidia", error="GPU is lost", xid=fault)
    stage.pass_by(
        1, lost, msgspec.structs.replace(cut, xid=fault), gpu("MIG-b", mig_parent="GPU-b")
    )
    assert [use.xids for use in read_usage(run.path)] == [(fault,), (fault,)], "written at once"
    stage.history = stage.renewed()
    stage.pass_by(12, lost)
    assert [use.xids for use in read_usage(run.path)] == [(fault,), (fault,)]
    for number in range(20):
        stage.pass_by(1, gpu(xid=Xid(31, stage.now + 1, "memory page fault")))
        assert read_usage(run.path)[0].xids[-1].time == stage.now, number
    assert len(read_usage(run.path)[0].xids) == 8


def test_weeks_of_a_run_stay_small_and_keep_their_spikes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.gpus.usage_recorder.FULL", 20_000)
    run = stage.launch("GPU-a", "GPU-b")
    names, seconds = ("GPU-a", "GPU-b"), 0
    for minute in range(600):
        spike = (
            {"own": 79 * GIB, "utilization": 100.0, "power_w": 700.0, "temperature_c": 91.0}
            if minute == 7
            else {}
        )
        idle = {"utilization": 0.0} if minute == 11 else {}
        calm = {"own": 10 * GIB, "utilization": 50.0, "power_w": 300.0, "temperature_c": 60.0}
        stage.pass_by(10, *(gpu(name, **(calm | spike | idle)) for name in names))
        seconds += 10
        assert interval_file(run.path).stat().st_size <= 20_000
    found = lines(run)
    assert 10 < len(found) < 100 and found[-1]["seconds"] == 10 and found[0]["seconds"] > 40
    assert sum(line["seconds"] for line in found) == seconds
    assert found[-1]["time"] == stage.now
    first = found[0]["gpus"][0]
    assert (first["memory"], first["highest"], first["lowest"], first["highest_w"]) == (
        79 * GIB,
        100.0,
        0.0,
        700.0,
    )
    assert first["temperature_c"] == 91.0 and first["utilization"] == pytest.approx(50.0, abs=1.0)
    use = read_usage(run.path)[0]
    assert (use.seconds, use.peak_memory) == (seconds, 79 * GIB)
    assert use.mean_utilization == 50.0 and use.energy_wh == pytest.approx(
        (300 * 5990 + 700 * 10) / 3600, abs=1e-3
    )
    assert stat.S_IMODE(interval_file(run.path).stat().st_mode) == 0o600 and FULL < 4 << 20


def test_what_cannot_be_merged_or_read_costs_no_other_line(stage: Stage) -> None:
    run = stage.launch("GPU-a")
    stage.pass_by(20, gpu())
    with interval_file(run.path).open("ab") as file:
        file.write(b'{"time": 50\n')
    plan = json.loads(run.plan.read_text())
    plan["gpus"][0]["uuid"] = "GPU-c"
    run.plan.write_text(json.dumps(plan))
    stage.pass_by(20, gpu("GPU-c"))
    compact(interval_file(run.path))
    assert [(line["seconds"], line["gpus"][0]["uuid"]) for line in lines(run)] == [
        (20, "GPU-a"),
        (20, "GPU-c"),
    ]
    compact(interval_file(run.path))
    assert len(lines(run)) == 2
