"""The distributed training guide: batch and rate by number of GPUs, nodes, systemd, NCCL."""

import configparser

from tests.guides.conftest import GuideCommands
from tests.guides.walks.looking import findings, line, objections, plan
from tests.guides.walks.steps import step

LINEAR = {1: (8, 2e-4), 2: (16, 4e-4), 4: (32, 8e-4), 8: (64, 1.6e-3)}
CAUTIOUS = {1: 2e-4, 2: 2.83e-4, 4: 4e-4, 8: 5.66e-4}
EXAMPLES = {
    "pcdiff-1gpu": (1, "--bs 8 --lr 0.0002"),
    "pcdiff-8gpu": (8, "--bs 64 --lr 0.0016"),
    "pcdiff-8gpu-sqrt": (8, "--bs 64 --lr 0.000566"),
    "pcdiff-8gpu-small": (8, "--bs 32 --lr 0.0008"),
}
MASTER = ("--master-addr", "192.168.1.100", "--master-port", "29500")


@step
def single_gpu_and_eight(guide: GuideCommands) -> None:
    for preset, (processes, settings) in EXAMPLES.items():
        planned = plan(guide, preset, "--set", f"wandb-name={preset}")
        assert planned["processes"] == processes and settings in line(planned)
        assert "--niter 15000" in line(planned) and f"--wandb-name {preset}" in line(planned)


@step
def eight_gpus_with_the_batch_of_one_are_warned_of(guide: GuideCommands) -> None:
    words = ("pcdiff-8gpu", "--set", "bs=8", "--set", "lr=2e-4")
    assert any("only 1 sample" in note for note in plan(guide, *words)["notes"])
    warned = [
        text for verdict, text, _ in findings(guide, *words, "--only", "batch") if verdict == "WARN"
    ]
    assert any("1 on each of 8" in text for text in warned)


@step
def a_batch_is_split_over_the_gpus(guide: GuideCommands) -> None:
    for batch, gpus, each in ((8, 1, 8), (8, 8, 1), (64, 8, 8), (128, 8, 16)):
        preset = "pcdiff-1gpu" if gpus == 1 else "pcdiff-8gpu"
        notes = " ".join(plan(guide, preset, "--set", f"bs={batch}")["notes"])
        assert f"{each} each on {gpus} device" in notes or (each, gpus) == (8, 1)


@step
def batch_and_rate_by_the_number_of_gpus(guide: GuideCommands) -> None:
    for gpus, (batch, rate) in LINEAR.items():
        for rule, wanted in (("linear", rate), ("sqrt", CAUTIOUS[gpus])):
            planned = plan(guide, "pcdiff-8gpu", "--gpus", str(gpus), "--scale", rule)
            words = planned["argv"]
            assert words[words.index("--bs") + 1] == str(batch)
            assert abs(float(words[words.index("--lr") + 1]) / wanted - 1) < 2e-3


@step
def warm_up_and_workers_and_wandb(guide: GuideCommands) -> None:
    words = ("lr-warmup-epochs=10", "workers=24", "wandb-project=pcdiff-implant")
    planned = plan(guide, "pcdiff-8gpu", "--set", *words)
    for flag in ("--lr-warmup-epochs 10", "--workers 24", "--wandb-project pcdiff-implant"):
        assert flag in line(planned)
    assert "warm the learning rate up" in " ".join(plan(guide, "pcdiff-8gpu")["notes"])


@step
def a_systemd_service_that_owns_the_run(guide: GuideCommands) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(guide.run("service", "unit", "pcdiff-8gpu", "--system").stdout)
    service = unit["Service"]
    assert service["Type"] == "simple" and service["Restart"] == "on-failure"
    assert service["RestartSec"] and service["WorkingDirectory"] == str(guide.folder)
    assert service["StandardOutput"].startswith("append:")
    assert service["StandardOutput"] != service["StandardError"]
    assert "--bs 64 --lr 0.0016" in service["ExecStart"]
    assert "--resume auto-or-new" in service["ExecStart"]
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@step
def out_of_memory_by_the_guides_table(guide: GuideCommands) -> None:
    def memory(*words: str) -> str:
        return next(text for _, text, _ in findings(guide, *words) if "expected" in text)

    assert "20.0 GiB" in memory("pcdiff-8gpu", "--only", "memory")
    halved = plan(guide, "pcdiff-8gpu", "--set", "bs=32", "--set", "lr=8e-4")
    assert "4 each on 8" in " ".join(halved["notes"])
    assert "--accumulate 2" in line(plan(guide, "pcdiff-8gpu", "--set", "accumulate=2"))
    said = objections(guide, "pcdiff-1gpu", "--set", "bs=392", "--only", "memory")
    assert "GiB on each GPU expected" in said


@step
def nccl_is_told_by_the_environment(guide: GuideCommands) -> None:
    wanted = {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eth0"}
    words = [f"environment.{name}={value}" for name, value in wanted.items()]
    planned = plan(guide, "pcdiff-8gpu", "--set", *words)
    assert wanted.items() <= planned["environment"].items()


@step
def two_nodes_of_eight(guide: GuideCommands) -> None:
    for rank in ("0", "1"):
        words = ("--nodes", "2", "--node-rank", rank, *MASTER, "--scale", "linear")
        said = line(plan(guide, "pcdiff-8gpu", *words))
        start = f"--nproc-per-node=8 --nnodes=2 --node-rank={rank} --master-addr=192.168.1.100"
        assert f"{start} --master-port=29500" in said
        assert "--bs 128 --lr 0.0032" in said


@step
def other_numbers_of_gpus_for_one_process_are_refused(guide: GuideCommands) -> None:
    for preset in ("pcdiff-1gpu", "voxelization"):
        assert guide.run("plan", preset, "--gpus", "4", exits=None).returncode != 0
