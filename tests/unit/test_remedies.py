"""Every remedy: what it makes of a spec, and the words with which it declines."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.diagnosis.remedy import surroundings
from runners.diagnosis.remedy.case import Case, Unfit
from runners.diagnosis.remedy.remedies import FUNCTIONS, plan_diff
from runners.diagnosis.remedy_names import REMEDIES
from runners.diagnosis.signatures import load_signatures
from runners.model.plan import AssignedGpu
from runners.model.spec import ConfigFile, GpuRequest, Parameter, ResumeRule, RunSpec, Scaling
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import make_plan, make_run


def parameter(name: str, value: Any, **more: Any) -> Parameter:
    kinds = {bool: "bool", int: "int", float: "float", str: "str", type(None): "float"}
    kind: Any = more.pop("type", kinds[type(value)])
    return Parameter(name, value, value, kind, f"--{name}", **more)


def case(
    *parameters: Parameter,
    gpus: int = 1,
    gpu: str = "H100",
    vendor: Any = "nvidia",
    plan: dict[str, Any] | None = None,
    **spec: Any,
) -> Case:
    given = tuple(AssignedGpu(i, f"GPU-{i}", gpu, i, vendor=vendor) for i in range(gpus))
    launcher = "torchrun" if gpus > 1 else "python"
    told: dict[str, Any] = {"gpus": given, "processes": max(1, gpus), "argv": ("python3", "t.py")}
    told["launcher"] = launcher
    run = make_run(State.FAILED, plan=make_plan(**(told | (plan or {}))), ended=2000.0)
    fields: dict[str, Any] = {"launcher": launcher, "parameters": parameters} | spec
    return Case(StateDirectory(Path("/nowhere")), run, RunSpec("demo", "demo", **fields))


def treated(name: str, given: Case) -> dict[str, Any]:
    """Parameters and environment after a remedy, by name."""
    spec = FUNCTIONS[name](given).spec
    return {one.name: one.value for one in spec.parameters} | spec.environment


def declined(name: str, given: Case) -> str:
    with pytest.raises(Unfit) as error:
        FUNCTIONS[name](given)
    return error.value.message


GLOBAL = Scaling("bs", "global", "lr", "linear", 8, 2e-4)
EACH = Scaling("bs", "device", "lr", "sqrt", 2, 1e-3)


def test_every_name_has_its_function_and_every_signature_names_some() -> None:
    assert set(FUNCTIONS) == set(REMEDIES)
    offered = {name for one in load_signatures(Path("/nowhere")) for name in one.remedies}
    assert offered <= set(FUNCTIONS) and len(offered) > 15


@pytest.mark.parametrize(
    ("scaling", "gpus", "bs", "lr", "after"),
    [
        (GLOBAL, 7, 56, 1.4e-3, (28, 7e-4)),
        (GLOBAL, 7, 21, 1e-3, (7, 3.33e-4)),  # 3 each become 1 each
        (GLOBAL, 8, 8, 2e-4, (4, 1e-4)),
        (EACH, 2, 8, 2e-3, (4, 1.41e-3)),
        (EACH, 1, 4, None, (2, 1e-3)),
        (Scaling("bs", "device", "lr", "program", 2, 1e-3), 1, 4, 1e-3, (2, 1e-3)),
        (Scaling("bs"), 1, 4, 0.5, (2, 0.5)),
    ],
)
def test_half_the_batch_and_the_rate_by_the_rule(
    scaling: Scaling, gpus: int, bs: int, lr: float | None, after: tuple[int, float]
) -> None:
    given = case(parameter("bs", bs), parameter("lr", lr), gpus=gpus, scaling=scaling)
    assert treated("half-batch", given) == {"bs": after[0], "lr": pytest.approx(after[1], rel=0.01)}


def test_a_batch_of_one_is_not_halved_and_a_minimum_holds() -> None:
    assert "one sample already" in declined("half-batch", case(parameter("bs", 1)))
    assert "expected at least 8" in declined("half-batch", case(parameter("bs", 8, minimum=8)))
    for value in (None, -1, float("inf"), float("nan")):
        assert "left to the program" in declined("half-batch", case(parameter("bs", value)))


def test_the_flags_of_a_bare_command() -> None:
    given = case(
        launcher="command",
        command=("python", "t.py", "--batch-size=8", "--lr", "1e-3", "--workers", "3"),
    )
    assert FUNCTIONS["half-batch"](given).spec.command[2] == "--batch-size=4"
    assert FUNCTIONS["half-rate"](given).spec.command[4] == "0.0005"
    assert FUNCTIONS["fewer-workers"](given).spec.command[6] == "1"
    assert FUNCTIONS["more-workers"](given).spec.command[6] == "6"
    none = case(launcher="command", command=("python", "t.py"))
    assert "has no --batch_size" in declined("half-batch", none)
    shell = case(launcher="command", command=("t --bs 8",), shell=True)
    assert "no parameter" in declined("half-batch", shell)


def test_accumulation_keeps_the_effective_batch() -> None:
    each = case(parameter("bs", 8), parameter("accumulate", 1), scaling=Scaling("bs", "device"))
    assert treated("accumulate", each) == {"bs": 4, "accumulate": 2}
    whole = case(parameter("bs", 56), parameter("accumulate", 2), scaling=Scaling("bs", "global"))
    assert treated("accumulate", whole) == {"bs": 56, "accumulate": 4}
    assert "no parameter" in declined("accumulate", case(parameter("bs", 8)))
    words = ("python", "t.py", "--bs", "8", "--gradient-accumulation-steps=2")
    flags = FUNCTIONS["accumulate"](case(launcher="command", command=words)).spec.command
    assert flags[2:] == ("--bs", "4", "--gradient-accumulation-steps=4")
    assert "no --accumulate" in declined("accumulate", case(launcher="command", command=words[:4]))


def test_mixed_precision_where_the_program_has_it() -> None:
    choices = {"choices": ("fp32", "bf16", "fp16")}
    assert (
        treated("mixed-precision", case(parameter("precision", "fp32", **choices)))["precision"]
        == "bf16"
    )
    old = case(parameter("precision", "fp32", **choices), gpu="Tesla V100")
    assert treated("mixed-precision", old)["precision"] == "fp16"
    for gpu in ("Quadro RTX 5000", "NVIDIA GeForce RTX 4090", "NVIDIA RTX 4000 Ada Generation"):
        wanted = "fp16" if "Quadro" in gpu else "bf16"
        given = case(parameter("precision", "fp32", **choices), gpu=gpu)
        assert treated("mixed-precision", given)["precision"] == wanted
    assert "already" in declined("mixed-precision", case(parameter("precision", "bf16", **choices)))
    assert treated("mixed-precision", case(parameter("amp", False)))["amp"] is True
    assert "no parameter" in declined("mixed-precision", case())


def test_rates() -> None:
    assert treated("half-rate", case(parameter("lr", 3e-4)))["lr"] == 1.5e-4
    known = case(parameter("bs", 16), parameter("lr", None), scaling=GLOBAL)
    assert treated("half-rate", known)["lr"] == 2e-4
    assert "left to the program" in declined("half-rate", case(parameter("lr", None)))
    linear = case(parameter("bs", 64), parameter("lr", 1.6e-3), gpus=8, scaling=GLOBAL)
    assert treated("sqrt-rate", linear)["lr"] == pytest.approx(5.66e-4)
    assert "linear rule" in declined("sqrt-rate", case(parameter("lr", 1.0)))
    small = case(parameter("bs", 8), parameter("lr", 2e-4), scaling=GLOBAL)
    assert "not above 8" in declined("sqrt-rate", small)


def test_workers() -> None:
    assert treated("fewer-workers", case(parameter("num_workers", 1)))["num_workers"] == 0
    assert "already" in declined("fewer-workers", case(parameter("workers", 0)))
    assert treated("more-workers", case(parameter("data.num_workers", 4)))["data.num_workers"] == 8


def test_ports() -> None:
    given = case(
        launcher="command",
        command=(
            "torchrun",
            "--master_port=29500",
            "--master-port",
            "29501",
            "--rdzv-endpoint=h:1",
            "t.py",
        ),
        environment={"MASTER_PORT": "29502"},
    )
    spec = FUNCTIONS["another-port"](given).spec
    assert spec.command == (
        "torchrun",
        "--master_port=${port}",
        "--master-port",
        "${port}",
        "--rdzv-endpoint=h:${port}",
        "t.py",
    )
    assert spec.environment["MASTER_PORT"] == "${port}"
    shell = case(
        launcher="command", shell=True, command=("cd x && torchrun --master_port 29500 t.py",)
    )
    assert FUNCTIONS["another-port"](shell).spec.command == (
        "cd x && torchrun --master_port ${port} t.py",
    )
    own = case(launcher="torchrun")
    assert FUNCTIONS["another-port"](own).spec == own.spec, "a launcher of ours gets one anyway"
    assert "no port" in declined("another-port", case())


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert treated("expandable-segments", case()) == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"
    }
    amd = case(
        vendor="amd", gpu="MI300X", environment={"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:64"}
    )
    assert treated("expandable-segments", amd)["PYTORCH_HIP_ALLOC_CONF"].endswith(
        "64,expandable_segments:True"
    )
    assert treated("nccl-debug", case()) == {"NCCL_DEBUG": "INFO"}
    assert "already" in declined("nccl-debug", case(environment={"NCCL_DEBUG": "INFO"}))
    assert treated("blocking-launches", amd)["AMD_SERIALIZE_KERNEL"] == "3"
    assert treated("no-compile", case(parameter("compile", True))) == {"compile": False}
    assert treated("no-compile", case()) == {"TORCHDYNAMO_DISABLE": "1"}
    assert treated("no-nccl-shm", case()) == {"NCCL_SHM_DISABLE": "1"}
    assert treated("show-gpus", case(environment={"CUDA_VISIBLE_DEVICES": "9", "A": "1"})) == {
        "A": "1"
    }
    on_cpu = msgspec.structs.replace(case().spec, gpus=GpuRequest())
    assert "--gpus 1" in declined("show-gpus", case()._replace(spec=on_cpu))
    monkeypatch.setattr(surroundings, "default_interface", lambda: "ens3")
    assert treated("interface", case()) == {
        "NCCL_SOCKET_IFNAME": "ens3",
        "GLOO_SOCKET_IFNAME": "ens3",
    }
    monkeypatch.setattr(surroundings, "default_interface", lambda: "")
    assert "no default route" in declined("interface", case())


def test_the_architecture_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "kernel_architectures", lambda: ["gfx1101"])
    assert treated("architecture-override", case()) == {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    monkeypatch.setattr(surroundings, "kernel_architectures", lambda: ["gfx942"])
    wrong = case(environment={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"})
    assert treated("architecture-override", wrong) == {}
    assert "needs none" in declined("architecture-override", case())


def test_gpu_numbers(tmp_path: Path) -> None:
    assert treated("first-gpu-number", case(parameter("gpu", 7)))["gpu"] == 0
    assert treated("first-gpu-number", case(parameter("device", "cuda:7")))["device"] == "cuda:0"
    (tmp_path / "c.yaml").write_text("train: {gpu: 7, lr: 0.1}\n")
    given = case(plan={"working_directory": str(tmp_path)}, config=ConfigFile("c.yaml"))
    spec = FUNCTIONS["first-gpu-number"](given).spec
    assert [(one.config_key, one.value) for one in spec.parameters] == [("train.gpu", 0)]
    assert "no parameter" in declined("first-gpu-number", case(parameter("gpu", 0)))


def test_torchrun() -> None:
    assert FUNCTIONS["torchrun"](case(gpus=2, launcher="python")).spec.launcher == "torchrun"
    assert "command" in declined("torchrun", case(launcher="command"))


def test_checkpoints(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        path = tmp_path / f"e{number}.pt"
        path.write_bytes(b"x" * 9)
    (tmp_path / "e2.pt").write_bytes(b"PK\x03\x04 cut short")
    for number in (1, 2, 3):
        os.utime(tmp_path / f"e{number}.pt", (5000 + number, 5000 + number))
    resume = {"resume": ResumeRule("resume"), "plan": {"checkpoints": (f"{tmp_path}/*.pt",)}}
    began = case(parameter("resume", str(tmp_path / "e3.pt")), **resume)
    assert treated("earlier-checkpoint", began)["resume"] == str(tmp_path / "e1.pt"), (
        "e2 is cut short"
    )
    new = case(parameter("resume", None, type="str"), **resume)
    assert treated("earlier-checkpoint", new)["resume"] == str(tmp_path / "e1.pt")
    assert treated("resume", new)["resume"] == str(tmp_path / "e3.pt")
    work = FUNCTIONS["remap-checkpoint"](began)
    assert [(one.do, Path(one.target).name) for one in work.work] == [("remap", "e3_remapped.pt")]
    assert {one.name: one.value for one in work.spec.parameters}["resume"] == str(
        tmp_path / "e3_remapped.pt"
    )
    first = case(parameter("resume", str(tmp_path / "e1.pt")), **resume)
    assert "no earlier" in declined("earlier-checkpoint", first)
    assert "names a checkpoint" in declined("strip-checkpoint", new)


def test_a_diff_shows_what_differs_and_nothing_else() -> None:
    before = make_plan(
        "r1", argv=("p", "t.py", "--bs", "8", "--out", "/nowhere/r1/o"), environment={"A": "1"}
    )
    after = make_plan(
        "r2",
        argv=("p", "t.py", "--bs", "4", "--out", "/nowhere/r2/o"),
        environment={"A": "1", "B": "2"},
    )
    assert plan_diff(before, after) == ("- --bs 8", "+ --bs 4", "+ B=2")
    assert plan_diff(before, before) == ()


def test_a_plan_that_waits_for_gpus_is_no_plan_for_the_cpu() -> None:
    shown = {"FRESNEL_GPU_COUNT": "1", "HIP_VISIBLE_DEVICES": "3"}
    gpus = (AssignedGpu(3, "GPU-3", "MI300X", 0),)
    before = make_plan("r1", environment=shown, gpus=gpus)
    waits = make_plan("r2", phase="queued")
    waits = msgspec.structs.replace(
        waits, spec=msgspec.structs.replace(waits.spec, gpus=GpuRequest(1))
    )
    assert plan_diff(before, waits) == ("- GPU 3", "+ 1 GPU, once free")
    cpu = make_plan("r3", environment={"FRESNEL_GPU_COUNT": "0"})
    assert "+ GPUs none: the CPU" in plan_diff(before, cpu)
