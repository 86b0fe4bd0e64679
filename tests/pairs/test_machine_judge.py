"""`doctor` and `verify` say the same of the same machine, whatever it has."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.doctor.checks import Check
from runners.doctor.host_facts import DiskRoom, HostFacts
from runners.doctor.logout import LogoutVerdict
from runners.doctor.resources import check_host, judge_room
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.plan import AssignedGpu
from runners.model.spec import Parameter, RunSpec
from runners.state.layout import StateDirectory
from runners.verify.check_table import judge
from runners.verify.facts import DiskFacts, InterpreterFacts, LaunchFacts, TorchDevice, TorchFacts
from tests.support import make_plan
from tui.cli import doctor

BYTES = st.one_of(st.none(), st.integers(0, 1 << 20), st.integers(0, 64 << 30))
HOSTS = st.builds(
    HostFacts,
    open_files=st.one_of(st.just(-1), st.integers(0, 1 << 20)),
    shm_free=BYTES,
    shm_total=BYTES,
    memory_total=BYTES,
    memory_available=BYTES,
    memory_limit=BYTES,
    memory_used=BYTES,
    logout=st.builds(
        LogoutVerdict,
        st.sampled_from(("safe", "killed", "unknown")),
        st.just("why"),
        st.just("how"),
    ),
    clock_synchronized=st.sampled_from((None, True, False)),
    clock_behind_s=st.floats(0, 1e6),
    read_at=st.floats(0, 2e9),
)


def facts(host: HostFacts | None = None, disk: DiskFacts | None = None) -> LaunchFacts:
    """A run with loader workers that is told nothing of how much it needs."""
    workers = Parameter("workers", 4, 4, "int", "--workers")
    spec = RunSpec("demo", "demo", "command", parameters=(workers,))
    return LaunchFacts(spec, make_plan(), host=host, disk=disk)


def by_name(checks: list[Check]) -> dict[str, Check]:
    found = {check.name: check for check in checks}
    assert len(found) == len(checks)
    return found


@given(HOSTS)
def test_one_machine_is_judged_once(host: HostFacts) -> None:
    of_machine = by_name(list(check_host(host)))
    of_run = by_name([found.check for found in judge(facts(host), ("machine",))])
    assert of_machine.keys() == of_run.keys()
    for name, check in of_machine.items():
        assert (of_run[name].verdict, of_run[name].advice) == (check.verdict, check.advice), name
        assert of_run[name].message.startswith(check.message), name


@given(st.integers(0, 20 << 30), st.one_of(st.none(), st.integers(0, 20_000)))
def test_one_disk_is_judged_once(free: int, inodes: int | None) -> None:
    verdict, text = judge_room(DiskRoom(free, inodes))
    (found,) = judge(facts(disk=DiskFacts("/x", free, inodes=inodes)), ("disk",))
    assert found.check.verdict == verdict and found.check.message.startswith(text)


AMD = tuple(GpuSnapshot(i, f"GPU-{i}", "MI300X", "amd") for i in range(2))


@pytest.mark.parametrize("command", ["quiet", "quiet iommu=pt"])
@pytest.mark.parametrize("balances", [None, False, True])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("gpus", [(), AMD[:1], AMD])
def test_what_rccl_warns_about_is_the_same_to_both(
    tmp_path: Path,
    command: str,
    balances: bool | None,
    nodes: int,
    gpus: tuple[GpuSnapshot, ...],
) -> None:
    host = HostFacts(kernel_command=command, numa_balancing=balances, numa_nodes=nodes)
    reading = GpuReading(0.0, "here", "amd" if gpus else "none", gpus)
    of_machine = doctor.check_more(StateDirectory(tmp_path), reading, host)
    plan = make_plan(
        gpus=tuple(AssignedGpu(i, gpu.uuid, gpu.name, i) for i, gpu in enumerate(gpus))
    )
    run = LaunchFacts(facts().spec, plan, gpus=gpus, host=host)
    of_run = [found.check for found in judge(run, ("machine",))]
    about = [[check for check in found if check.name == "RCCL"] for found in (of_machine, of_run)]
    assert about[0] == about[1] and bool(about[0]) == (len(gpus) > 1)


TORCH = """
from types import SimpleNamespace as Space
__version__ = "2.9.1"
version = Space(cuda="12.8", hip=None)
backends = Space(cudnn=Space(version=lambda: 91002))
about = Space(name="H100", major=9, minor=0, total_memory=1 << 36)
cuda = Space(
    get_arch_list=lambda: ["sm_90"],
    device_count=lambda: 1,
    init=lambda: None,
    get_device_properties=lambda _index: about,
)
"""


def test_a_slow_cudnn_is_the_same_to_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.delenv("FRESNEL_PYTHON", raising=False)
    monkeypatch.chdir(tmp_path)
    variables = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    gpu = GpuSnapshot(0, "GPU-0", "H100", "nvidia")
    (of_machine,) = doctor.check_torch(GpuReading(0.0, "here", "nvml", (gpu,)), variables)
    torch = TorchFacts("2.9.1", "12.8", None, ("sm_90",), (TorchDevice("H100"),), cudnn=91002)
    asked = InterpreterFacts("/py", "3.11.9", {"torch": ""}, torch)
    run = LaunchFacts(facts().spec, make_plan(), gpus=(gpu,), interpreter=asked)
    (of_run,) = [found.check for found in judge(run, ("gpus",)) if found.check.name == "cuDNN"]
    assert of_machine == of_run and of_machine.verdict == "WARN"
    (tmp_path / "torch.py").write_text("raise ImportError('broken')")
    assert not doctor.check_torch(GpuReading(0.0, "here", "nvml", (gpu,)), variables)
    assert not doctor.check_torch(GpuReading(0.0, "here", "none"), variables)
    assert "torch" not in sys.modules or not sys.modules["torch"].__file__.startswith(str(tmp_path))
