"""What `doctor` says of drivers, GPU errors, heat, memory, disks, network, helpers and packages."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from runners.doctor import machine_checks, resources
from runners.doctor.checks import Check
from runners.doctor.host_facts import HostFacts, default_interface, kernel_architectures, read_host
from runners.doctor.machine_checks import xid_advice
from runners.host.helpers import ROOT
from runners.host.procfs import HELPER_MARK, process_state
from runners.host.systemd import why_no_scope
from runners.model.gpus import GpuReading, GpuSnapshot, Xid
from tests.support import eventually

GIB = 1 << 30


def told(checks: Iterable[Check]) -> list[tuple[str, str]]:
    return [(one.verdict, f"{one.message} {one.advice}") for one in checks]


def reading(problem: str | None = None, driver: str | None = None, **gpu: object) -> GpuReading:
    snapshot = GpuSnapshot(0, "GPU-0", "H100", "nvidia", **gpu)  # type: ignore[arg-type]
    return GpuReading(0.0, "here", "nvml", (snapshot,), problem=problem, driver=driver)


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_driver_that_was_updated_under_a_running_kernel(tmp_path: Path) -> None:
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5\n"
    write(tmp_path, proc__driver__nvidia__version=version)
    assert told(machine_checks.check_drivers(reading(driver="550.54.15"), tmp_path)) == [
        ("PASS", "NVIDIA 550.54.15 ")
    ]
    ((verdict, words),) = told(machine_checks.check_drivers(reading(driver="570.1"), tmp_path))
    assert verdict == "WARN" and "570.1" in words and "reboot" in words
    mismatch = reading("Failed to initialize NVML: Driver/library version mismatch")
    ((verdict, _),) = told(machine_checks.check_drivers(mismatch, tmp_path))
    assert verdict == "FAIL"
    assert not list(machine_checks.check_drivers(reading(), tmp_path / "nothing"))


def test_an_amd_machine_without_its_device(tmp_path: Path) -> None:
    node = "sys__class__kfd__kfd__topology__nodes__"
    write(
        tmp_path,
        **{
            f"{node}0__properties": "gfx_target_version 0\n",
            f"{node}1__properties": "gfx_target_version 90402\n",
            f"{node}2__properties": "x 1\ngfx_target_version 110001\n",
        },
    )
    assert kernel_architectures(tmp_path) == ["gfx942", "gfx1101"]
    (driver, access) = told(machine_checks.check_drivers(GpuReading(0.0, "h", "amd"), tmp_path))
    assert driver[0] == "PASS" and "gfx942, gfx1101" in driver[1]
    assert access[0] == "FAIL" and "--device=/dev/kfd" in access[1]


def test_gpu_errors_say_whose_they_are() -> None:
    seen = [Xid(79, 1e9, "fallen off the bus"), Xid(79, 1e9 + 9, "fallen off the bus")]
    now = reading(xid=Xid(31, 2e9, "memory page fault"), ecc_errors=3)
    found = told(machine_checks.check_gpu_errors(now, seen))
    assert [verdict for verdict, _ in found] == ["WARN"] * 3
    assert "3 uncorrectable" in found[0][1] and "--gpu-ids" in found[0][1]
    assert "Xid 31" in found[1][1] and "most likely the program" in found[1][1]
    assert "2 times" in found[2][1] and "reboot" in found[2][1]
    assert not list(machine_checks.check_gpu_errors(reading(), []))
    assert "reset this GPU" in xid_advice(95) and "link" in xid_advice(74)
    assert "nothing" in xid_advice(43) and "NVIDIA's list" in xid_advice(9999)


@pytest.mark.parametrize(
    ("state", "verdicts"),
    [
        ({"temperature_c": 60.0}, []),
        ({"temperature_c": 88.0}, ["WARN"]),
        ({"temperature_c": 97.0}, ["FAIL"]),
        ({"temperature_c": 70.0, "throttle": ("HW thermal slowdown",)}, ["WARN"]),
    ],
)
def test_heat(state: dict[str, object], verdicts: list[str]) -> None:
    assert [one for one, _ in told(machine_checks.check_heat(reading(**state)))] == verdicts  # type: ignore[arg-type]


def test_memory_and_clock() -> None:
    check = resources.judge_memory
    assert told(check(HostFacts(memory_total=64 * GIB, memory_available=32 * GIB)))[0][0] == "PASS"
    assert told(check(HostFacts(memory_total=64 * GIB, memory_available=GIB // 2)))[0][0] == "WARN"
    limited = HostFacts(memory_total=64 * GIB, memory_limit=8 * GIB, memory_used=8 * GIB - 1)
    assert "docker --memory" in told(check(limited))[0][1]
    assert not list(check(HostFacts()))
    assert resources.judge_clock(HostFacts(clock_synchronized=False)).verdict == "WARN"
    assert resources.judge_clock(HostFacts(clock_behind_s=9e9)).verdict == "WARN"
    assert resources.judge_clock(HostFacts()).verdict == "PASS"


def test_disks_are_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"here": tmp_path, "there": tmp_path / "not" / "yet"}
    assert len(told(machine_checks.check_disks(places))) == 1
    monkeypatch.setattr(resources, "LITTLE_ROOM", 1 << 60)
    ((verdict, words),) = told(machine_checks.check_disks(places))
    assert verdict == "WARN" and "prune" in words


def test_the_network(tmp_path: Path) -> None:
    route = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "lo\t0000007F\t0\t1\t0\t0\t0\t0\nens3\t00000000\t0\t3\t0\t0\t100\t0\n"
        "wlan0\t00000000\t0\t3\t0\t0\t600\t0\n"
    )
    write(tmp_path, proc__net__route=route)
    assert default_interface(tmp_path) == "ens3" and default_interface(tmp_path / "x") == ""
    assert told(machine_checks.check_network(HostFacts(routed="ens3"), "no-such-name")) == [
        ("PASS", "default route by ens3 ")
    ]
    assert "this machine alone" in told(machine_checks.check_network(HostFacts(), "x"))[0][1]


def test_a_name_that_is_the_loopback_s_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for line, verdict in (("::1 box", "WARN"), ("127.0.1.1 box", "WARN"), ("10.0.0.1 box", "PASS")):
        monkeypatch.setattr(machine_checks, "read_text", lambda _path, line=line: line)
        assert told(machine_checks.check_network(HostFacts(routed="ens3"), "box"))[0][0] == verdict


def test_a_suspended_helper_is_named(tmp_path: Path) -> None:
    environment = {**os.environ, HELPER_MARK: "sampler"}
    words = [sys.executable, "-c", "import time; time.sleep(60)", str(ROOT), str(tmp_path)]
    with subprocess.Popen(words, env=environment) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            eventually(lambda: process_state(child.pid) == "T")
            found = told(machine_checks.check_helpers(tmp_path))
            others = told(machine_checks.check_helpers(tmp_path / "another"))
            others += told(machine_checks.check_helpers(Path(f"{tmp_path}"[:-1])))
            others += told(machine_checks.check_helpers(tmp_path / "\udcff"))
        finally:
            child.kill()
    assert any(f"(pid {child.pid}) is suspended" in words for _, words in found)
    assert [verdict for verdict, _ in others] == ["PASS"] * 3


def test_packages() -> None:
    installed = {"textual": "8.2.8"}
    assert told(machine_checks.check_versions(installed, ["textual"])) == [
        ("PASS", "textual 8.2.8 ")
    ]
    assert "pip install gone" in told(machine_checks.check_versions(installed, ["gone"]))[0][1]


def test_a_memory_limit_of_a_control_group_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        proc__self__cgroup="0::/user/run\n",
        proc__meminfo="MemTotal: 1000 kB\nMemAvailable: 500 kB\n",
    )
    group = tmp_path / "sys/fs/cgroup/user"
    (group / "run").mkdir(parents=True)
    (group / "memory.max").write_text("262144\n")
    (group / "memory.current").write_text("1024\n")
    (group / "run" / "memory.max").write_text("max\n")
    found = read_host(tmp_path)
    assert (found.memory_limit, found.memory_used) == (262144, 1024)
    assert (found.memory_total, found.memory_available) == (1024000, 512000)


def test_what_may_not_be_looked_at_ends_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As with a folder of another user, /run/chrony or that of a session before `su`: an error.
    unseen = tmp_path / ("x" * 300)
    assert isinstance(read_host(unseen), HostFacts)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(unseen))
    why_no_scope()
