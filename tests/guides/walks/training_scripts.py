"""The training scripts' guide: PCDiff on GPUs 0 to 6, the voxelization network on GPU 7."""

import json
import shutil
import signal
import sys
from typing import Any

from tests.guides.conftest import GuideCommands
from tests.guides.walks.looking import (
    findings,
    line,
    objections,
    output,
    plan,
    save_as_on,
    visible,
)
from tests.guides.walks.steps import long_step, step
from tests.support import REPOSITORY, eventually
from tests.warm import TORCH

DATA = "pcdiff/datasets/SkullBreak"
OUTPUT = "pcdiff/output/train_completion/2025-10-23-19-35-15"
PUBLISHED = f"{OUTPUT}/epoch_1999.pth"
REMAPPED = f"{OUTPUT}/epoch_1999_remapped.pth"
SMALL = (
    *("--num_points", "256", "--num_nn", "64", "--vox_res_mult", "0.25", "--embed_dim", "8"),
    *("--threads", "1"),
)
"""What makes the guide's network small enough for seven processes on two cores."""
TINY = (
    *("--set", f"pcdiff.arguments=[{', '.join(SMALL)}]"),
    *("--set", "pcdiff.width_mult=0.25", "pcdiff.workers=0", "pcdiff.bs=7"),
    *("--set", "pcdiff.val_freq=0", "pcdiff.vizIter=3", "pcdiff.saveIter=1"),
    *("--set", f"voxelization.config={REPOSITORY}/trainers/voxelization/configs/tiny.yaml"),
    *("--set", "voxelization.epochs=2", "voxelization.grid_res=32", "voxelization.workers=0"),
    *("--set", "voxelization.validate_every=1", "voxelization.checkpoint_every=1"),
    *("--set", f"voxelization.train_path={DATA}/voxelization/train.csv"),
    *("--set", f"voxelization.eval_path={DATA}/voxelization/eval.csv"),
)


def own(run: str) -> list[str]:
    """What makes one of the two small, for a launch of it alone."""
    return ["--set", *(word.removeprefix(f"{run}.") for word in TINY if word.startswith(f"{run}."))]


@step
def data_is_where_the_guide_has_it(guide: GuideCommands) -> None:
    skulls = ("--root", DATA, "--count", 3, "--size", 32, "--points", 600)
    guide.program("skulls/made_up.py", *skulls)
    guide.program("skulls/prepare.py", "--root", DATA, "--num_points", 256, "--num_nn", 32)
    assert (guide.folder / DATA / "train.csv").is_file()


@step
def setup_verify(guide: GuideCommands) -> None:
    told = guide.run("verify", "launch-both", "--brief")
    assert "pcdiff" in told.stdout and "voxelization" in told.stdout
    assert "0 failures" in told.stderr


@step
def both_are_planned_on_their_gpus(guide: GuideCommands) -> None:
    pcdiff, voxelization = guide.json("plan", "launch-both", "--no-verify")
    assert visible(pcdiff) == "0,1,2,3,4,5,6" and visible(voxelization) == "7"
    assert [(gpu["index"], gpu["logical"]) for gpu in voxelization["gpus"]] == [(7, 0)]
    assert [gpu["index"] for gpu in pcdiff["gpus"]] == list(range(7))
    assert "--nproc-per-node=7" in line(pcdiff) and "--bs 56 --lr 0.0014" in line(pcdiff)
    assert "--niter 15000" in line(pcdiff) and f"--path {DATA}/train.csv" in line(pcdiff)
    for words in ("--batch_size 4", "--lr 0.001", "--epochs 1300", "--workers 8"):
        assert words in line(voxelization)
    assert pcdiff["forecast"]["doubt"].startswith("the guide's 36-43 h")
    assert 36 <= voxelization["forecast"]["seconds"] / 3600 <= 48


@step
def the_guides_392_is_accepted_where_it_fits(guide: GuideCommands) -> None:
    planned = plan(guide, "pcdiff", "--set", "bs=392", "--set", "lr=1.22e-3")
    assert "--bs 392 --lr 0.00122" in line(planned)
    assert "56 each on 7" in " ".join(planned["notes"])
    assert "GiB on each GPU expected" in objections(
        guide, "pcdiff", "--set", "bs=392", "--only", "memory"
    )
    refused = guide.run("launch", "pcdiff", "--set", "bs=392", exits=1).stderr
    assert "was not launched" in refused


@step
def in_two_terminals_in_either_order(guide: GuideCommands) -> None:
    first = guide.launch(
        *("--gpu-ids", "7", "--name", "voxelization", "--", sys.executable, "-u", "-c"),
        "print('epoch 1 loss 0.5', flush=True); import time; time.sleep(300)",
    )
    eventually(lambda: "loss" in output(guide, first.id), what="its first line")
    assert plan(guide, "pcdiff")["waits"] is None, "0 to 6 are free"
    assert plan(guide, "voxelization", "--gpu-ids", "7")["waits"] is not None


@step
def monitor_shows_it_once(guide: GuideCommands) -> None:
    shown = guide.run("monitor", "-n", "5").stdout
    assert "voxelization" in shown and "epoch 1 loss 0.5" in shown and "disk of" in shown
    found = guide.json("monitor")
    assert {"gpus", "runs"} <= set(found)
    (held,) = [gpu for gpu in guide.json("gpus") if gpu["index"] == 7]
    assert "voxelization" in str(held)


@step
def monitor_goes_on_until_it_is_ended(guide: GuideCommands) -> None:
    child = guide.begin("monitor", "--watch", "--every", "1", "--json")
    assert child.stdout is not None
    looks = [json.loads(child.stdout.readline()) for _ in range(2)]
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert all("voxelization" in str(look["runs"]) for look in looks)


@step
def the_log_is_read_and_searched(guide: GuideCommands) -> None:
    assert "epoch 1 loss 0.5" in guide.run("logs", "voxelization", "-n", "100").stdout


@step
def force_kill(guide: GuideCommands) -> None:
    guide.run("kill", "voxelization")
    ended = guide.json("wait", "voxelization", exits=None)
    assert "SIGKILL" in str(ended) or "killed" in str(ended)


@step
def the_checkpoint_of_eight_gpus_is_remapped(guide: GuideCommands) -> None:
    (guide.folder / OUTPUT).mkdir(parents=True)
    publish(guide)
    words = ("pcdiff", "--set", f"model={PUBLISHED}", "--only", "checkpoint")
    warned = [text for verdict, text, _ in findings(guide, *words, exits=0) if verdict != "PASS"]
    assert any("cuda:7" in text or "device" in text for text in warned)
    guide.run("checkpoint", "remap", PUBLISHED)
    published, remapped = guide.json("checkpoint", "inspect", PUBLISHED, REMAPPED)
    assert "cuda:7" in str(published)
    assert "cpu" in str(remapped) and "cuda" not in str(remapped)


def publish(guide: GuideCommands) -> None:
    """An epoch_1999.pth as it was saved from GPU 7 of eight."""
    plain = guide.folder / OUTPUT / "plain.pt"
    program = (
        "import sys, torch; torch.save({'epoch': 1999, 'model_state': "
        "{'model.module.sa.0.weight': torch.ones(4, 3)}, 'optimizer_state': {}}, sys.argv[1])"
    )
    TORCH.run([sys.executable, "-c", program, str(plain)], check=True, timeout=100)
    save_as_on(plain, guide.folder / PUBLISHED, "cuda:7")
    plain.unlink()


@step
def pcdiff_resumes_from_epoch_1999(guide: GuideCommands) -> None:
    planned = plan(guide, "pcdiff", "--resume", REMAPPED)
    assert f"--resume {guide.folder / REMAPPED}" in line(planned)
    assert "13,00" in planned["forecast"]["basis"], "of 15,000"
    assert 36 <= planned["forecast"]["seconds"] / 3600 <= 43, "the guide's"
    by_setting = plan(guide, "pcdiff", "--set", f"model={REMAPPED}")
    assert f"--model {REMAPPED}" in line(by_setting)


@step
def a_port_in_use_is_never_chosen(guide: GuideCommands) -> None:
    first, second = (plan(guide, "pcdiff")["port"] for _ in range(2))
    assert first != second != 29500


@step
def smaller_batches_for_less_memory(guide: GuideCommands) -> None:
    assert "48" in objections(guide, "pcdiff", "--set", "bs=48", "--only", "batch")
    assert "--bs 49" in line(plan(guide, "pcdiff", "--set", "bs=49"))
    assert "--batch_size 2" in line(plan(guide, "voxelization", "--set", "batch_size=2"))


@step
def rates_follow_the_linear_rule(guide: GuideCommands) -> None:
    assert "linear from 0.0005 at 2" in " ".join(plan(guide, "voxelization")["notes"])
    assert "linear from 0.0002 at 8" in " ".join(plan(guide, "pcdiff")["notes"])


@long_step
def launch_both(guide: GuideCommands) -> None:
    told = guide.run("launch", "launch-both", *TINY, "--set", "pcdiff.niter=3", "--no-verify")
    pcdiff, voxelization = told.stdout.split()
    for run in (pcdiff, voxelization):
        ended = guide.ended(guide.state.run(run))
        assert ended["state"] == "done", (ended["reason"], output(guide, run)[-3000:])


@long_step
def outputs_are_where_the_guide_has_them(guide: GuideCommands) -> None:
    pcdiff = guide.state.run(newest(guide, "pcdiff")).path
    assert {"train.log", "epoch_1.pth", "syn"} <= {path.name for path in pcdiff.iterdir()}
    drawn = {path.name for path in (pcdiff / "syn").iterdir()}
    kinds = ("samples", "ground_truth", "partial")
    assert any({f"epoch_{n}_{kind}" for kind in kinds} <= drawn for n in range(4)), drawn
    voxelization = guide.state.run(newest(guide, "voxelization")).path
    names = {path.name for path in voxelization.iterdir()}
    assert {"model.pt", "model_best.pt", "tensorboard_log", "train.log"} <= names


def newest(guide: GuideCommands, preset: str) -> str:
    """The newest run of a preset."""
    runs: list[dict[str, Any]] = guide.json("list")
    return str(next(run["id"] for run in runs if run["preset"] == preset))


@long_step
def both_go_on_where_they_were(guide: GuideCommands) -> None:
    content = guide.state.run(newest(guide, "pcdiff")).path / "epoch_2.pth"
    shutil.copy(content, guide.folder / OUTPUT / "own.pth")
    program = (
        "import sys, torch; found = torch.load(sys.argv[1], weights_only=True); "
        "torch.save({'epoch': 1999, 'model_state': {k.replace('model.', 'model.module.', 1): v "
        "for k, v in found['model_state'].items()}, "
        "'optimizer_state': found['optimizer_state']}, sys.argv[2])"
    )
    own_file, plain = (guide.folder / OUTPUT / name for name in ("own.pth", "plain.pt"))
    words = [sys.executable, "-c", program, str(own_file), str(plain)]
    TORCH.run(words, check=True, timeout=100)
    save_as_on(plain, guide.folder / PUBLISHED, "cuda:7")
    (guide.folder / REMAPPED).unlink()
    guide.run("checkpoint", "remap", PUBLISHED)
    run = guide.launch(
        *("pcdiff", *own("pcdiff"), "--set", "niter=2001", "--resume", REMAPPED, "--no-verify")
    )
    assert guide.ended(run)["state"] == "done", output(guide, run.id)[-3000:]
    assert "at epoch 2000" in output(guide, run.id)
    further = guide.launch("--resume", "voxelization", "--set", "epochs=3", "--no-verify")
    assert guide.ended(further)["state"] == "done", output(guide, further.id)[-3000:]


@long_step
def a_graceful_stop_saves(guide: GuideCommands) -> None:
    words = ("voxelization", *own("voxelization"), "--set", "epochs=500", "--no-verify")
    run = guide.launch(*words)
    eventually(lambda: (run.path / "model.pt").exists(), 120, "its first checkpoint")
    guide.run("stop", run.id, "--wait")
    ended = guide.status(run)
    assert ended["state"] == "stopped" and ended["checkpoint"] is not None
    assert ended["exit_code"] == 0
