"""What control groups of either version allow, in and outside of containers: memory, processors."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from runners.gpus import host_metrics
from runners.gpus.host_metrics import HostMeter
from runners.host.memory_group import MemoryLimit, group_kills, memory_limit
from runners.host.processor_group import ProcessorLimit, processor_limit

GIB = 1 << 30


def machine(root: Path, groups: str, **folders: dict[str, object]) -> Path:
    """A machine whose process is in `groups`, with these files by folder (`__` is a slash)."""
    files = {"proc/self": {"cgroup": groups}}
    files |= {f"sys/fs/cgroup/{name}".replace("__", "/"): found for name, found in folders.items()}
    for name, found in files.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for file, content in found.items():
            (root / name / file).write_text(f"{content}\n")
    return root


def version_1(limit: int, used: int, cached: int, kills: int) -> dict[str, object]:
    return {
        "memory.limit_in_bytes": limit,
        "memory.usage_in_bytes": used,
        "memory.stat": f"cache 1\ninactive_file 2\ntotal_inactive_file {cached}",
        "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}",
    }


def test_version_2_counts_in_the_innermost_group_and_is_limited_by_any(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "0::/box/run",
        box={
            "memory.max": 8 * GIB,
            "memory.current": 5 * GIB,
            "memory.stat": f"anon 1\ninactive_file {GIB}",
            "memory.events": "oom 9\noom_kill 7",
        },
        box__run={"memory.max": "max", "memory.events": "low 0\noom_kill 2"},
    )
    assert memory_limit(root) == MemoryLimit(8 * GIB, 4 * GIB)
    assert group_kills(root) == 2


def test_version_1_of_a_container_is_mounted_from_its_own_group_on(tmp_path: Path) -> None:
    """Beside version 2, which has no memory then: a hybrid, whose line comes last."""
    root = machine(
        tmp_path,
        "4:memory:/docker/ab12\n1:cpu:/docker/ab12\n0::/docker/ab12",
        memory=version_1(4 * GIB, 3 * GIB, 2 * GIB, 1),
    )
    assert memory_limit(root) == MemoryLimit(4 * GIB, GIB)
    assert group_kills(root) == 1


def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    assert memory_limit(machine(tmp_path, "")) is None and group_kills(tmp_path) is None
    endless = version_1(0x7FFFFFFFFFFFF000, 3, 2, 0)
    assert memory_limit(machine(tmp_path, "4:memory:/", memory=endless)) is None


def test_the_host_s_memory_is_what_its_container_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = SimpleNamespace(total=64 * GIB, available=60 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    for limit, shown in (
        (None, (4 * GIB, 64 * GIB)),
        (MemoryLimit(8 * GIB, GIB), (GIB, 8 * GIB)),
        (MemoryLimit(999 * GIB, GIB), (4 * GIB, 64 * GIB)),
    ):
        monkeypatch.setattr(host_metrics, "memory_limit", lambda limit=limit: limit)
        found = HostMeter(tmp_path).read()
        assert (found.memory_used, found.memory_total) == shown


def test_version_2_allows_the_tightest_quota_or_set_of_processors(tmp_path: Path) -> None:
    used = {"cpu.stat": "usage_usec 2500000\nuser_usec 1"}
    box: dict[str, object] = {"cpu.max": "250000 100000", "cpuset.cpus.effective": "0-3,8"}
    root = machine(tmp_path, "0::/box/run", box=box | used, box__run={"cpu.max": "max 100000"})
    assert processor_limit(root) == ProcessorLimit(2.5, 2.5)
    machine(tmp_path, "0::/box/run", box__run={"cpuset.cpus.effective": "0,8"} | used)
    assert processor_limit(root) == ProcessorLimit(2, 2.5)


def test_version_1_counts_processors_in_a_group_of_their_own(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "3:cpu:/docker/ab12\n2:cpuacct:/docker/ab12",
        cpu={"cpu.cfs_quota_us": 50000, "cpu.cfs_period_us": 100000, "cpu.stat": "nr_periods 7"},
        cpuacct={"cpuacct.usage": 1500000000},
    )
    assert processor_limit(root) == ProcessorLimit(0.5, 1.5)


def test_without_quota_or_set_all_processors_are_ours(tmp_path: Path) -> None:
    assert processor_limit(machine(tmp_path, "")) is None
    root = machine(
        tmp_path,
        "3:cpu:/a\n0::/b",
        cpu__a={"cpu.cfs_quota_us": -1, "cpu.cfs_period_us": 100000},
        b={"cpu.max": "max 100000", "cpuset.cpus.effective": ""},
    )
    assert processor_limit(root) is None


def test_the_host_s_processors_are_those_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, used = [100.0], [50.0]
    monkeypatch.setattr(psutil, "cpu_count", lambda: 64)
    monkeypatch.setattr(psutil, "cpu_percent", lambda _: 3.0)
    monkeypatch.setattr(host_metrics.time, "monotonic", lambda: clock[0])
    limit = ProcessorLimit(4.0, 0.0)
    monkeypatch.setattr(
        host_metrics, "processor_limit", lambda: limit._replace(used_s=used[0]) if limit else None
    )
    meter = HostMeter(tmp_path)
    first = meter.read()
    clock[0], used[0] = 102.0, 54.0
    then = meter.read()
    assert [first.cpu_percent, then.cpu_percent] == [None, 50.0]
    assert (then.cpu_count, then.load_1m) == (4, None)
    limit = ProcessorLimit(64.0, 0.0)
    meter.read()
    assert [meter.read().cpu_percent, meter.read().cpu_count] == [3.0, 64]
