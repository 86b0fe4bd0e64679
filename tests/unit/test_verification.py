"""Every check before a launch: what passes, what warns, what fails, and what it says to do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runners.doctor.checks import Check
from runners.doctor.host_facts import HostFacts
from runners.doctor.logout import LogoutVerdict
from runners.host.files import ABSENT
from runners.model.course import Expectation
from runners.model.gpus import GpuSnapshot
from runners.model.plan import AssignedGpu
from runners.model.program import Scaling
from runners.model.spec import CommandRule, DeclaredChecks, FileRule, Parameter, RunSpec
from runners.verify.check_table import CHECKS, judge
from runners.verify.facts import (
    BatchFacts,
    CheckpointFacts,
    CommandFacts,
    ConfigFacts,
    DiskFacts,
    FileFacts,
    InterpreterFacts,
    LaunchFacts,
    MemoryNeed,
    OutputFacts,
    PathFacts,
    PortFacts,
    StartFacts,
    TorchDevice,
    TorchFacts,
)
from runners.verify.program_checks import runs_on
from tests.support import make_plan

GIB = 1 << 30
H100 = TorchDevice("H100", "sm_90", 80 * GIB)
CUDA = TorchFacts("2.9", "12.8", None, ("sm_80", "sm_90"), (H100,))
ROCM = TorchFacts("2.6", None, "7.0", ("gfx942", "gfx1100"), (TorchDevice("MI300X", "gfx942"),))


def gpu(name: str = "H100", vendor: Any = "nvidia", used: int = 0, index: int = 0) -> GpuSnapshot:
    return GpuSnapshot(index, f"GPU-{index}", name, vendor, memory_used=used, memory_total=80 * GIB)


def facts(
    gpus: tuple[GpuSnapshot, ...] = (),
    torch: TorchFacts | None = None,
    spec: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    **more: Any,
) -> LaunchFacts:
    given = tuple(
        AssignedGpu(one.index, one.uuid, one.name, i, one.simulated, vendor=one.vendor)
        for i, one in enumerate(gpus)
    )
    if torch is not None:
        more["interpreter"] = InterpreterFacts("/py", "3.11.9", {"torch": ""}, torch)
    return LaunchFacts(
        RunSpec("demo", "demo", "command", **(spec or {})),
        make_plan(gpus=given, **(plan or {})),
        gpus=gpus,
        **more,
    )


def parameter(name: str, value: Any, config_key: str = "") -> Parameter:
    kind: Any = "str" if isinstance(value, str) else "int"
    return Parameter(name, value, value, kind, f"--{name}", config_key=config_key)


def with_cudnn(version: str, cudnn: int) -> TorchFacts:
    return TorchFacts(version, "12.8", None, ("sm_90",), (H100,), cudnn=cudnn)


def sharing(workers: int, *more: Parameter, data_on_gpu: bool = False) -> dict[str, Any]:
    expected = Expectation(shared_memory_per_sample=16 << 20, data_on_gpu=data_on_gpu)
    return {"parameters": (parameter("workers", workers), *more), "expect": expected}


def shared_workers() -> dict[str, Any]:
    ahead, shared = parameter("prefetch-factor", 4), Scaling("bs", workers="global")
    return {**sharing(8, ahead), "scaling": shared}


def staged(*more: Parameter) -> dict[str, Any]:
    stages = {"stage 1": Expectation(), "stage 3": Expectation(shared_memory_per_sample=16 << 20)}
    return {"parameters": (parameter("workers", 4), *more), "expect": Expectation(stages=stages)}


def config(**values: Any) -> dict[str, Any]:
    return {"config": ConfigFacts("c.yaml", values)}


ONE, TWO = (gpu(),), (gpu(), gpu(index=1))
AMD = (gpu("MI300X", "amd"), gpu("MI300X", "amd", index=1))
FILES = FileRule("x/*.jpg", "images", (500, 500), (100, None), ("{stem}.bin",))
BATCH = {"spec": {"parameters": (parameter("gpu", 7),)}}

# name of the case: (check, verdict, a part of its words or advice, the facts)
CASES: dict[str, tuple[str, str, str, LaunchFacts]] = {
    "interpreter answers": ("interpreter", "PASS", "3.11.9", facts(torch=CUDA)),
    "interpreter chosen at the start": (
        "interpreter", "WARN", "`uv run` chooses it",
        facts(plan={"argv": ("nice", "uv", "run", "train.py")}),
    ),
    "interpreter hangs": (
        "interpreter", "FAIL", "did not end",
        facts(interpreter=InterpreterFacts("/py", problem="did not end within 1 s")),
    ),
    "imports": ("imports", "PASS", "torch", facts(torch=CUDA)),
    "a module is missing": (
        "imports", "FAIL", "/py -m pip install wandb",
        facts(interpreter=InterpreterFacts("/py", "3.11", {"wandb": "ModuleNotFoundError: x"})),
    ),
    "an import that the script may find": (
        "imports", "WARN", "sys.path",
        facts(interpreter=InterpreterFacts("/py", "3.11", {"mine": "ModuleNotFoundError: x"},
            extends_path=True)),
    ),
    "no script": ("script", "FAIL", "/x.py", facts(start=StartFacts("/x.py", exists=False))),
    "more processes than GPUs": (
        "processes", "FAIL", "--gpus 4",
        facts(TWO, start=StartFacts("/x", launcher="torchrun", processes=4)),
    ),
    "no such option": (
        "options", "FAIL", "--lr?", facts(start=StartFacts("/x", unknown=(("--l", "--lr"),))),
    ),
    "torch sees it": ("torch", "PASS", "sees 1 × H100", facts(ONE, CUDA)),
    "a CPU build": ("torch", "FAIL", "no GPU support", facts(ONE, TorchFacts("2.9+cpu"))),
    "torch sees fewer": ("torch", "FAIL", "sees 1 of the 2", facts(TWO, CUDA)),
    "torch cannot start CUDA": (
        "torch", "FAIL", "Error 802", facts(ONE, TorchFacts("2", "12.8", problem="Error 802")),
    ),
    "busy GPUs": ("torch", "WARN", "held by", facts(torch=CUDA, waits="held by a run")),
    "simulated": (
        "torch", "PASS", "simulated", facts((gpu(vendor="simulated-nvidia"),), TorchFacts("2")),
    ),
    "built for AMD": ("torch build", "FAIL", "needs CUDA", facts(ONE, ROCM)),
    "architecture": ("GPU architecture", "PASS", "sm_90", facts(ONE, CUDA)),
    "no code for it": (
        "GPU architecture", "FAIL", "sm_120",
        facts(ONE, TorchFacts("2.6", "12.4", None, ("sm_90",), (TorchDevice("B", "sm_120"),))),
    ),
    "driver": ("driver", "PASS", "fits", facts(ONE, CUDA, driver="570.124")),
    "old driver": ("driver", "FAIL", "525.60", facts(ONE, CUDA, driver="470.57.02")),
    "cuDNN": ("cuDNN", "PASS", "cuDNN 9.15.1", facts(ONE, with_cudnn("2.9.1", 91501))),
    "cuDNN that is slow": (
        "cuDNN", "WARN", "17 times the memory", facts(ONE, with_cudnn("2.9.1+cu128", 91400)),
    ),
    "cuDNN that is wrong": ("cuDNN", "WARN", "wrongly", facts(ONE, with_cudnn("2.10.0", 91002))),
    "override wrong": (
        "architecture override", "FAIL", "code of its own",
        facts(AMD, ROCM, architectures={0: "gfx942"},
              environment={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}),
    ),
    "override missing": (
        "architecture override", "FAIL", "=11.0.0",
        facts(AMD, ROCM, architectures={0: "gfx1101"}),
    ),
    "override right": (
        "architecture override", "PASS", "11.0.0",
        facts(AMD, ROCM, architectures={0: "gfx1101"},
              environment={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}),
    ),
    "override on NVIDIA": (
        "architecture override", "WARN", "does nothing",
        facts(ONE, environment={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}),
    ),
    "gpu: 7 under a mask": ("GPU number", "FAIL", "calls 0",
        facts(ONE, **config(**{"train.gpu": 7}))),
    "gpu: 0": ("GPU number", "PASS", "gpu: 0", facts(ONE, **config(gpu=0))),
    "device: cuda:3": ("GPU number", "FAIL", "0 to 1", facts(TWO, **config(device="cuda:3"))),
    "parameter gpu": ("GPU number", "FAIL", "--set gpu=0", facts(ONE, **BATCH)),
    "data": ("data", "PASS", "/d", facts(paths=(PathFacts("data_dir", "/d"),))),
    "no data": ("data", "FAIL", "/d: no such file",
        facts(paths=(PathFacts("data_dir", "/d", ABSENT),))),
    "files": ("files", "PASS", "500 found", facts(files=(FileFacts(FILES, "/x", 500),))),
    "too few": ("files", "FAIL", "499 found, 500 expected",
        facts(files=(FileFacts(FILES, "/x", 499),))),
    "a wrong size": (
        "files", "FAIL", "a.jpg 7",
        facts(files=(FileFacts(FILES, "/x", 500, (("a.jpg", 7),), 1),)),
    ),
    "unpaired": (
        "files", "FAIL", "3 files that belong",
        facts(files=(FileFacts(FILES, "/x", 500, (), 0, ("a.bin",), 3),)),
    ),
    "optional files": (
        "files", "WARN", "0 found", facts(files=(FileFacts(FileRule("x", optional=True), "/x"),)),
    ),
    "own command": ("command", "PASS", "ok",
        facts(commands=(CommandFacts(CommandRule(("true",)), 0, "ok"),))),
    "own command fails": (
        "command", "FAIL", "code 1 instead of 0",
        facts(commands=(CommandFacts(CommandRule(("false",)), 1),)),
    ),
    "own command hangs": (
        "command", "WARN", "within 60 s",
        facts(commands=(CommandFacts(CommandRule(("cat",), optional=True), None),)),
    ),
    "checkpoint": ("checkpoint", "PASS", "epoch 3",
        facts(checkpoint=CheckpointFacts("/c", 9, step={"epoch": 3}))),
    "checkpoint damaged": ("checkpoint", "FAIL", "not whole",
        facts(checkpoint=CheckpointFacts("/c", problem="/c: not whole"))),
    "checkpoint of GPU 7": (
        "checkpoint", "WARN", "checkpoint remap",
        facts(ONE, checkpoint=CheckpointFacts("/c", devices=("cuda:7",))),
    ),
    "checkpoint wrapped": (
        "checkpoint", "WARN", "checkpoint strip",
        facts(checkpoint=CheckpointFacts("/c", wrappers=("module",))),
    ),
    "checkpoint of another model": (
        "checkpoint", "FAIL", "512×384 instead of 512×768",
        facts(checkpoint=CheckpointFacts("/c", shapes={"w": (512, 384)},
            current={"w": (512, 768)})),
    ),
    "checkpoint not opened": ("checkpoint", "WARN", "too large",
        facts(checkpoint=CheckpointFacts("/c", unseen="too large"))),
    "keys known": ("configuration", "PASS", "every key",
        facts(config=ConfigFacts("c.yaml", {}, ()))),
    "key unknown": ("configuration", "WARN", "train.moment",
        facts(config=ConfigFacts("c.yaml", {}, ("train.moment",)))),
    "key without effect": (
        "configuration", "WARN", "Adam has none",
        facts(spec={"checks": DeclaredChecks(without_effect={"m": "Adam has none"})},
            **config(m=0.9)),
    ),
    "a flag twice": (
        "arguments", "WARN", "--bs is given twice",
        facts(spec={"parameters": (parameter("bs", 8),)},
            plan={"argv": ("t", "--bs", "8", "--bs=16")}),
    ),
    "memory": ("GPU memory", "PASS", "40.0 GiB",
        facts(ONE, memory=(MemoryNeed(40 * GIB, "as in run x"),))),
    "memory taken": (
        "GPU memory", "WARN", "has 30.0 GiB of 80.0 GiB free",
        facts((gpu(used=50 * GIB),), memory=(MemoryNeed(40 * GIB, "as in run x", True),)),
    ),
    "memory never": ("GPU memory", "FAIL", "smaller batch",
        facts(ONE, memory=(MemoryNeed(90 * GIB, "by a probe", True),))),
    "memory expected": ("GPU memory", "WARN", "90.0 GiB",
        facts(ONE, memory=(MemoryNeed(90 * GIB, "expected"),))),
    "batch": ("batch", "PASS", "64 = 8 on each of 8", facts(batch=BatchFacts(8, 64, 8))),
    "fewer than usual": ("batch", "WARN", "below 4", facts(batch=BatchFacts(2, 2, 1, 8))),
    "few, but usual": ("batch", "PASS", "2 = 2", facts(batch=BatchFacts(2, 2, 1, 2))),
    "one sample each": ("batch", "WARN", "below 4", facts(batch=BatchFacts(1, 8, 8))),
    "a large batch": ("batch", "WARN", "above 1,024", facts(batch=BatchFacts(256, 2048, 8))),
    "beyond the probe": ("batch", "FAIL", "at most 32",
        facts(batch=BatchFacts(64, 64, 1, largest=32, probed_on="H100"))),
    "does not divide": ("batch", "WARN", "divide", facts(batch=BatchFacts(65 / 8, 65, 8))),
    "disk": ("disk", "PASS", "4 × 1.0 GiB",
        facts(disk=DiskFacts("/o", 100 * GIB, GIB, 4, 600.0, "as in run x"))),
    "disk too small": (
        "disk", "FAIL", "full after 1h40m",
        facts(disk=DiskFacts("/o", 10 * GIB, GIB, 40, 600.0, "as in run x")),
    ),
    "disk nearly": ("disk", "WARN", "little room", facts(disk=DiskFacts("/o", 5 * GIB, GIB, 4))),
    "disk unknown": ("disk", "PASS", "unknown", facts(disk=DiskFacts("/o", 100 * GIB))),
    "port": ("port", "PASS", "29500 is free",
        facts(ports=(PortFacts(29500, "--master_port", True),))),
    "port taken": ("port", "FAIL", "${port}",
        facts(ports=(PortFacts(29500, "--master_port", False),))),
    "port that is none": ("port", "FAIL", "70000",
        facts(ports=(PortFacts(None, "MASTER_PORT 70000", False),))),
    "interface": (
        "interface", "PASS", "eth",
        facts(environment={"NCCL_SOCKET_IFNAME": "eth"}, host=HostFacts(interfaces=("eth0", "lo"))),
    ),
    "no such interface": (
        "interface", "FAIL", "NCCL_SOCKET_IFNAME=ens3",
        facts(environment={"NCCL_SOCKET_IFNAME": "eth0"},
            host=HostFacts(interfaces=("ens3",), routed="ens3")),
    ),
    "outputs": ("outputs", "PASS", "nothing", facts(outputs=(OutputFacts("/o/*", 0),))),
    "old outputs": ("outputs", "WARN", "epoch_3.pt",
        facts(outputs=(OutputFacts("/o/*", 3, "epoch_3.pt", 60.0),))),
    "somebody writes there": ("outputs", "FAIL", "of its own",
        facts(outputs=(OutputFacts("/o/*", 1, writers=("r1",)),))),
    "few open files": ("open files", "WARN", "ulimit", facts(host=HostFacts(open_files=1024))),
    "open files": ("open files", "PASS", "65,536", facts(host=HostFacts(open_files=65536))),
    "small shm": (
        "shared memory", "WARN", "--shm-size",
        facts(spec={"parameters": (parameter("workers", 8),)}, host=HostFacts(shm_free=64 << 20)),
    ),
    "shm that the samples fill": (
        "shared memory", "FAIL", "8 loader workers with 2 batches each fill 1.0 GiB at most",
        facts(spec=sharing(8), host=HostFacts(shm_free=GIB - 1), batch=BatchFacts(4, 4, 1)),
    ),
    "shm that holds the samples": ("shared memory", "PASS", "fill 0.5 GiB",
        facts(spec=sharing(4), host=HostFacts(shm_free=GIB - 1), batch=BatchFacts(4, 4, 1))),
    "shm that data on the GPU may spare": (
        "shared memory", "WARN", "fill 1.0 GiB at most, unless all data fits on the GPU",
        facts(spec=sharing(8, data_on_gpu=True), host=HostFacts(shm_free=GIB - 1),
              batch=BatchFacts(4, 4, 1)),
    ),
    "shm of a batch that is not scaled": (
        "shared memory", "FAIL", "fill 1.0 GiB at most",
        facts(spec=sharing(8, parameter("batch_size", 4)), host=HostFacts(shm_free=GIB - 1)),
    ),
    "shm of workers that all processes share": (
        "shared memory", "PASS", "4 loader workers with 4 batches each fill 1.0 GiB at most",
        facts(TWO, spec=shared_workers(), plan={"processes": 2}, host=HostFacts(shm_free=GIB),
              batch=BatchFacts(2, 4, 2)),
    ),
    "shm of a stage, by its own batch": (
        "shared memory", "FAIL", "4 loader workers with 2 batches each fill 1.0 GiB at most",
        facts(spec=staged(), host=HostFacts(shm_free=GIB - 1),
              **config(**{"t.batch_size": 2, "t.batch_size_stage3": 8})),
    ),
    "shm of a stage, by a flag": ("shared memory", "PASS", "fill 0.5 GiB",
        facts(spec=staged(parameter("batch_size", 4)), host=HostFacts(shm_free=GIB - 1),
              **config(**{"t.batch_size_stage3": 8}))),
    "small shm, unused": ("shared memory", "PASS", "/dev/shm",
        facts(host=HostFacts(shm_free=64 << 20))),
    "a memory limit": (
        "memory", "WARN", "limits it to 8.0 GiB",
        facts(host=HostFacts(memory_total=64 * GIB, memory_limit=8 * GIB, memory_used=7 * GIB)),
    ),
    "memory of the host": ("memory", "PASS", "30.0 GiB",
        facts(host=HostFacts(memory_available=30 * GIB))),
    "logout kills": ("logout", "WARN", "enable-linger",
        facts(host=HostFacts(logout=LogoutVerdict("killed", "x", "enable-linger")))),
    "logout": ("logout", "PASS", "stays",
        facts(host=HostFacts(logout=LogoutVerdict("safe", "stays")))),
    "clock": ("clock", "PASS", "time service", facts(host=HostFacts(clock_synchronized=True))),
    "clock alone": ("clock", "WARN", "set-ntp", facts(host=HostFacts(clock_synchronized=False))),
    "clock behind": ("clock", "WARN", "before the time", facts(host=HostFacts(clock_behind_s=9e9))),
    "RCCL": ("RCCL", "PASS", "NUMA", facts(AMD, host=HostFacts(kernel_command="quiet iommu=pt"))),
    "RCCL, NUMA": (
        "RCCL", "WARN", "numa_balancing=0",
        facts(AMD, host=HostFacts(kernel_command="iommu=pt", numa_balancing=True, numa_nodes=2)),
    ),
    "RCCL, IOMMU": ("RCCL", "WARN", "iommu=pt", facts(AMD, host=HostFacts())),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_check_says_what_it_found_and_what_to_do(case: str) -> None:
    name, verdict, words, given = CASES[case]
    found = [one.check for one in judge(given) if one.check.name == name]
    assert any(
        one.verdict == verdict and words in f"{one.message} {one.advice}" for one in found
    ), found
    if verdict == "PASS":
        assert all(one.verdict == "PASS" for one in found)


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert not list(judge(facts()))


EVERY_CHECK = [check for checks in CHECKS.values() for check in checks]


@pytest.mark.parametrize("check", EVERY_CHECK, ids=lambda check: check.__name__)
def test_every_check_of_the_table_is_seen_to_object(
    check: Callable[[LaunchFacts], Iterator[Check]],
) -> None:
    found = [one for _, _, _, given in CASES.values() for one in check(given)]
    assert any(one.verdict != "PASS" for one in found)


def test_only_the_groups_that_were_asked_for() -> None:
    given = facts(ONE, CUDA, disk=DiskFacts("/o", GIB))
    assert {one.group for one in judge(given, ["disk"])} == {"disk"}


@pytest.mark.parametrize(
    ("arch", "built", "runs"),
    [
        ("sm_86", ("sm_80",), True),
        ("sm_80", ("sm_86",), False),
        ("sm_120", ("sm_90", "compute_90"), True),
        ("sm_120", ("sm_90",), False),
        ("sm_90", ("sm_90a",), True),
        ("gfx942", ("gfx942",), True),
        ("gfx1101", ("gfx1100",), False),
    ],
)
def test_code_runs_within_a_major_version_or_is_compiled(
    arch: str, built: tuple[str, ...], runs: bool
) -> None:
    assert runs_on(arch, built) is runs
