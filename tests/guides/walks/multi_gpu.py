"""The guide for four A100: the cascade under Accelerate and torchrun, stage by stage."""

import json

from tests.guides.conftest import GuideCommands
from tests.guides.walks.looking import findings, line, output, plan
from tests.guides.walks.steps import long_step, step
from tests.support import eventually

PATIENTS = "data/drr_patient_data"
NODES = ("--nodes", "2", "--master-addr", "192.168.1.1", "--master-port", "29500")
SMALL = (
    *("--set", "epochs=2", "made_up=6", "batch_size=2"),
    *("--set", "sampling_steps=2", "threads=1", "checkpoint_dir=checkpoints_4gpu"),
)


@step
def patients_are_where_the_configuration_says(guide: GuideCommands) -> None:
    made = (PATIENTS, "--count", 3)
    guide.program("cascade/make_patients.py", *made)
    found = findings(guide, "cascade-4gpu-torchrun", "--only", "data")
    assert {verdict for verdict, _, _ in found} <= {"PASS"}
    assert any("3 found" in text for _, text, _ in found)


@step
def option_1_accelerate(guide: GuideCommands) -> None:
    planned = plan(guide, "cascade-4gpu-accelerate", "--set", "wandb=true")
    said = line(planned)
    assert "--multi_gpu" in said and "--num_processes=4" in said
    assert "--mixed_precision=fp16" in said and said.endswith("--wandb")
    assert "train_accelerate.py --config" in said and "multi_view_config.json" in said
    assert [gpu["index"] for gpu in planned["gpus"]] == [0, 1, 2, 3]


@step
def option_2_torchrun(guide: GuideCommands) -> None:
    said = line(plan(guide, "cascade-4gpu-torchrun", "--set", "wandb=true"))
    assert "--nproc-per-node=4" in said and "train_distributed.py --config" in said
    assert "--wandb" in said


@step
def the_configuration_is_edited_by_its_keys(guide: GuideCommands) -> None:
    keys = ("training.batch_size_stage1=8", "data.num_workers=4")
    planned = plan(guide, "cascade-4gpu-torchrun", "--set", *keys)
    changes = " ".join(planned["config_changes"]) + line(planned)
    assert "batch_size_stage1: 16 → 8" in changes


@step
def memory_is_saved_by_three_settings(guide: GuideCommands) -> None:
    keys = ("gradient_checkpointing=true", "mixed_precision=fp16", "accumulation_steps=2")
    said = line(plan(guide, "cascade-4gpu-torchrun", "--set", *keys))
    for flag in ("--gradient_checkpointing", "--mixed_precision fp16", "--accumulation_steps 2"):
        assert flag in said


@step
def two_nodes_of_four(guide: GuideCommands) -> None:
    for rank in ("0", "1"):
        by_torchrun = line(plan(guide, "cascade-4gpu-torchrun", *NODES, "--node-rank", rank))
        start = f"--nproc-per-node=4 --nnodes=2 --node-rank={rank} --master-addr=192.168.1.1"
        assert f"{start} --master-port=29500" in by_torchrun
        said = line(plan(guide, "cascade-4gpu-accelerate", *NODES, "--node-rank", rank))
        for word in ("--num_machines=2", "--num_processes=8", f"--machine_rank={rank}"):
            assert word in said


@step
def expected_times_of_every_preset(guide: GuideCommands) -> None:
    hours = {
        preset: plan(guide, preset)["forecast"]["seconds"] / 3600
        for preset in ("cascade-4gpu-torchrun", "cascade-4gpu-accelerate", "cascade-production")
    }
    assert set(hours.values()) == {58.0}
    for preset in ("cascade-dev", "cascade-sample", "cascade-tiny"):
        assert plan(guide, preset)["forecast"]["seconds"] > 0


@step
def each_stage_has_its_own_expectations(guide: GuideCommands) -> None:
    stages = plan(guide, "cascade-4gpu-torchrun")["spec"]["expect"]["stages"]
    assert [stage["memory"] >> 30 for stage in stages.values()] == [15, 40, 70]
    assert [stage["per_epoch"] for stage in stages.values()] == [120, 480, 1500]
    told = [text for _, text, _ in findings(guide, "cascade-4gpu-torchrun", "--only", "memory")]
    for stage, need in (("1", "15.0 GiB"), ("2", "40.0 GiB"), ("3", "70.0 GiB")):
        assert any(need in text and text.endswith(f"stage {stage}") for text in told)
    assert any("(88 % of it)" in text for text in told), "beside the guide's 70-80"


@step
def development_production_and_resuming(guide: GuideCommands) -> None:
    said = line(plan(guide, "cascade-dev"))
    assert "train_progressive.py --config" in said and "single_view_config.json" in said
    said = line(plan(guide, "cascade-production"))
    assert "--checkpoint_dir checkpoints_production" in said
    assert "--wandb_project hybrid-vit-cascade-production" in said
    best = "checkpoints_4gpu/stage2_best.pt"
    resumed = line(plan(guide, "cascade-4gpu-accelerate", "--set", f"resume_from={best}"))
    assert f"--resume_from {best}" in resumed


@step
def a_second_run_into_the_same_folder_is_warned_of(guide: GuideCommands) -> None:
    folder = guide.folder / "checkpoints_4gpu"
    folder.mkdir(exist_ok=True)
    (folder / "stage1_best.pt").write_bytes(b"weights")
    words = ("cascade-4gpu-torchrun", "--only", "outputs")
    warned = [text for kind, text, _ in findings(guide, *words) if kind == "WARN"]
    assert any("may be overwritten" in text for text in warned)
    (folder / "stage1_best.pt").unlink()


@long_step
def small_stages_train_one_after_the_other(guide: GuideCommands) -> None:
    run = guide.launch("cascade-tiny", *SMALL)
    phases: set[str] = set()

    def watched() -> bool:
        status = guide.status(run)
        phases.add(str(status["progress"]["phase"]))
        return status["state"] not in ("running", "starting")

    eventually(watched, 400, "its end")
    assert guide.ended(run)["state"] == "done", output(guide, run.id)[-3000:]
    assert {"stage 1/2", "stage 2/2"} <= phases
    names = {path.name for path in (guide.folder / "checkpoints_4gpu").iterdir()}
    assert {"stage1_best.pt", "stage2_best.pt", "logs"} <= names
    told = [json.loads(text) for text in run.events.read_text().splitlines()]
    assert {"physics", "learning_rate", "samples_per_second"} <= {
        name for event in told for name in event.get("values", {})
    }


@long_step
def it_is_resumed_from_the_best_of_a_stage(guide: GuideCommands) -> None:
    best = "checkpoints_4gpu/stage1_best.pt"
    run = guide.launch("cascade-tiny", *SMALL, "--set", f"resume_from={best}", "epochs=3")
    assert guide.ended(run)["state"] == "done", output(guide, run.id)[-3000:]
    assert "stage1_best.pt" in output(guide, run.id)
