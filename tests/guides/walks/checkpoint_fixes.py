"""The guide of checkpoint and GPU fixes, in the checkout of the training scripts."""

import sys

from tests.guides.conftest import GuideCommands
from tests.guides.walks.looking import line, objections, output, plan, visible
from tests.guides.walks.steps import step
from tests.guides.walks.training_scripts import OUTPUT, REMAPPED
from tests.warm import TORCH

GUIDES_LINES = """
import sys, torch
checkpoint = torch.load(sys.argv[1], weights_only=True)
print(checkpoint["epoch"], *{value.device for value in checkpoint["model_state"].values()})
"""
ECHO = ("--", "sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES")


@step
def the_remapped_checkpoint_is_on_the_cpu(guide: GuideCommands) -> None:
    words = [sys.executable, "-c", GUIDES_LINES, str(guide.folder / REMAPPED)]
    found = TORCH.run(words, check=True, capture_output=True, text=True, timeout=100)
    assert found.stdout.split() == ["1999", "cpu"]


@step
def a_checkpoint_that_is_not_whole_is_said(guide: GuideCommands) -> None:
    whole = (guide.folder / REMAPPED).read_bytes()
    (guide.folder / OUTPUT / "half.pth").write_bytes(whole[: len(whole) // 2])
    for name in ("half.pth", "none.pth"):
        words = ("--set", f"model={OUTPUT}/{name}", "--only", "checkpoint")
        assert name in objections(guide, "pcdiff", *words)


@step
def an_inherited_variable_reaches_no_run(guide: GuideCommands) -> None:
    told = guide.run("plan", "voxelization", "--no-verify", CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6")
    assert "GPU 7 → device 0" in told.stdout
    run = guide.launch("--gpu-ids", "7", *ECHO, CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6")
    guide.ended(run)
    assert output(guide, run.id).strip() == "sees 7"


@step
def each_terminal_shows_its_own_gpus(guide: GuideCommands) -> None:
    run = guide.launch("--gpu-ids", "0-6", *ECHO)
    guide.ended(run)
    assert output(guide, run.id).strip() == "sees 0,1,2,3,4,5,6"
    assert visible(plan(guide, "voxelization")) == "7"


@step
def the_two_examples_of_the_linear_rule(guide: GuideCommands) -> None:
    rated = plan(guide, "pcdiff", "--set", "bs=392", "--set", "lr=1.22e-3")
    assert "linear from 0.0002 at 8 would be" in " ".join(rated["notes"])
    paper = plan(guide, "voxelization", "--set", "batch_size=2", "--scale", "linear")
    assert "--lr 0.0005" in line(paper)


@step
def what_is_to_be_done_with_caution_is_said(guide: GuideCommands) -> None:
    def notes(*settings: str) -> str:
        words = [word for setting in settings for word in ("--set", setting)]
        return " ".join(plan(guide, "pcdiff", *words)["notes"])

    assert "trained weights" in notes(f"model={REMAPPED}")
    assert "above 10" in notes("bs=112")
    assert "1,024" in notes("bs=1050")


@step
def the_configuration_says_gpu_0(guide: GuideCommands) -> None:
    planned = plan(guide, "voxelization", "--set", "train.gpu=0")
    assert planned["config_changes"] == []
    assert "train.gpu" in objections(
        guide, "voxelization", "--set", "train.gpu=7", "--only", "config"
    )
