"""The memory limit of control groups of either version, in and outside of containers."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from runners.gpus import host_metrics
from runners.gpus.host_metrics import HostMeter
from runners.host.memory_group import MemoryLimit, group_kills, memory_limit

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
