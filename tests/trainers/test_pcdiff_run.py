"""PCDiff's trainer from its command to its files: log, checkpoints, resuming, several processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("numba")

from tests.trainers import pcdiff_world as world
from tests.trainers.said_once import series_of, told_twice
from tests.trainers.saved_state import differing_files, load
from trainers.common.weights import read_weights
from trainers.pcdiff.completing import load_network
from trainers.pcdiff.rates import rate_of_epoch

# Whole programs are started here, and a busy machine takes its time over importing torch.
pytestmark = [pytest.mark.trainers, pytest.mark.timeout(450)]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training list of ten samples, five held out beside it."""
    return world.skulls(tmp_path_factory.mktemp("skulls"))


def test_a_run_writes_what_the_guide_names(listed: Path, tmp_path: Path) -> None:
    viz = ("--vizIter", "2", "--viz_steps", "3", "--viz_samples", "1", "--diag_steps", "2")
    ended = world.program(
        "train_completion.py", *world.SMALL, "--path", str(listed), "--dataset", "SkullBreak",
        "--up_convolutions", "3",  # as many as published checkpoints have
        "--bs", "5", "--niter", "2", "--saveIter", "1", "--val_freq", "1", "--val_samples", "2",
        "--print_freq", "1", "--diagIter", "2", "--no-tensorboard", *viz, run=tmp_path, curves=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    log = (tmp_path / "train.log").read_text()
    assert all(
        re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} : ", line) for line in log.splitlines()
    )
    for line in (
        "Batch size: 5 per GPU × 1 GPUs = 5 effective global batch",
        "Dataset: 10 samples, 2 batches/epoch/rank",
        "Effective LR scaled to 2.000000e-04 using factor 1.000 (baseline batch=8, current batch=5",
        "=== TRAINING COMPLETED ===",
    ):
        assert line in log
    steps = re.findall(
        r" : \[ *(\d+)/ *2\]\[ *(\d+)/ *2\]    loss: +(\d+\.\d{4}),    grad_norm: +\d+\.\d{4}\n",
        log,
    )
    assert [(epoch, step) for epoch, step, _ in steps] == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    for name in ("samples", "ground_truth", "partial"):
        ply = tmp_path / "syn" / f"epoch_1_{name}" / "sample_0.ply"
        points = 192 if name == "partial" else 256
        assert f"element vertex {points}\n" in ply.read_text()
    for name in ("inputs.png", "syn/epoch_1.png", "curves.png", "history.json"):
        assert (tmp_path / name).stat().st_size > 100
    content = torch.load(tmp_path / "epoch_1.pth", weights_only=True)
    assert content["epoch"] == 1 and content["loss"] > 0
    assert len(content["model_state"]) == 296 == len({*content["model_state"]})
    assert all(name.startswith("model.") for name in content["model_state"])
    assert (tmp_path / "epoch_0.pth").is_file()
    assert told_twice(series_of(tmp_path, ended.stdout)) == []
    told = world.events(tmp_path)
    kinds = {event["type"] for event in told}
    assert {"start", "phase", "metrics", "epoch", "checkpoint", "image", "summary"} <= kinds
    last = [event for event in told if event["type"] == "epoch"][-1]["values"]
    expected = {"val_loss", "val_loss_baseline", "chamfer", "chamfer_mirror", "diag_total_bpd"}
    assert expected <= last.keys()
    assert "baseline" in log and "mirrored skull" in log
    # What was judged last is exported, and drawn from.
    exported, diffusion, words = load_network(
        tmp_path / "checkpoints" / "pcdiff.safetensors", {}, "auto", torch.device("cpu")
    )
    assert words == "weights of epoch 2, 256 points" and diffusion.steps == 1000
    assert world.same(world.weights(tmp_path / "epoch_1.pth"), {
        f"model.{name}": tensor for name, tensor in exported.state_dict().items()
    })  # fmt: skip
    card = (tmp_path / "checkpoints" / "pcdiff.md").read_text()
    assert "| chamfer_mirror |" in card and "10 samples of 2 skulls" in card
    assert str(tmp_path) not in card and str(listed.parent) not in card


def test_what_is_refused_is_refused_before_anything_is_made(
    listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    real = ("--path", str(listed))
    for words in (
        ("--path", "no.csv"),
        (*real, "--val_path", "no.csv"),
        (*real, "--bs", "900"),
        (*real, "--bs", "5", "--accumulate", "2"),
        (*real, "--bs", "5", "--resume", "auto"),
        (*real, "--bs", "5", "--model", str(listed)),
        # Skulls are made up for minutes: what cannot be is said before.
        ("--made_up", "9", "--resume", "no.pt"),
        ("--made_up", "9", "--model", "no.pth"),
        ("--made_up", "9", "--width_mult", "0.01"),
        ("--made_up", "9", "--neighbours", "triton"),
        ("--made_up", "9", "--beta_start", "0.5"),
    ):
        assert world.train_here(*words, "--niter", "1") == 2, words
        assert list(tmp_path.iterdir()) == [], words


def test_resuming_goes_on_to_the_bit(listed: Path, tmp_path: Path) -> None:
    base = ("--path", str(listed), "--bs", "5", *world.RARE, "--ema_decay", "0.9")
    often = ("--checkpoint_freq", "1")
    assert world.train_here(*base, "--niter", "3", "--output_dir", str(tmp_path / "whole")) == 0
    parts = ("--output_dir", str(tmp_path / "parts"), *often)
    assert world.train_here(*base, *parts, "--niter", "1") == 0
    assert world.train_here(*base, *parts, "--niter", "3", "--resume", "auto") == 0
    for name in ("epoch_2.pth", "checkpoints/last.pt"):
        assert differing_files(tmp_path / "whole" / name, tmp_path / "parts" / name) == []


def test_a_numbered_checkpoint_knows_the_best_that_was_found_before_it(
    listed: Path, tmp_path: Path
) -> None:
    """Else a run that is killed there and goes on keeps a worse model as its best."""
    words = ("--path", str(listed), "--bs", "5", *world.RARE, "--checkpoint_freq", "1")
    assert world.train_here(*words, "--niter", "1", "--output_dir", str(tmp_path)) == 0
    best, newest = (
        load(tmp_path / "checkpoints" / name)["position"] for name in ("best.pt", "last.pt")
    )
    assert newest["best"] == best["best"] == newest["last_loss"]


def test_a_list_that_was_cut_since_ends_the_epoch_that_had_used_more_of_it(
    listed: Path, tmp_path: Path
) -> None:
    words = ("--path", str(listed), "--bs", "10", *world.RARE, "--output_dir", str(tmp_path))
    assert world.train_here(*words, "--niter", "1") == 0
    newest = tmp_path / "checkpoints" / "last.pt"
    content = load(newest)
    content["position"] |= {"epoch": 0, "used": 40}
    earlier = tmp_path / "earlier.pt"
    torch.save(content, earlier)
    assert world.train_here(*words, "--niter", "1", "--resume", str(earlier)) == 0
    assert load(newest)["position"]["epoch"] == 1


def test_an_epoch_without_a_step_has_no_loss_that_could_be_the_best(
    listed: Path, tmp_path: Path, first_gradient_spoiled: None
) -> None:
    """As the first step of half precision is: its 0 was the best for ever."""
    words = ("--path", str(listed), "--bs", "10", *world.RARE, "--checkpoint_freq", "1")
    assert world.train_here(*words, "--niter", "2", "--output_dir", str(tmp_path)) == 0
    best = load(tmp_path / "checkpoints" / "best.pt")["position"]
    assert best["epoch"] == 2 and best["best"] == best["last_loss"] > 0


def test_a_stop_inside_an_epoch_loses_nothing(
    listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ("--path", str(listed), "--bs", "2", "--niter", "1", *world.RARE)
    assert world.train_here(*base, "--output_dir", str(tmp_path / "whole")) == 0
    run = tmp_path / "run"
    run.mkdir()
    (run / "stop.json").symlink_to(run / "inputs.png")  # there once the data are read
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(run))
    assert world.train_here(*base, "--output_dir", str(run)) == 0
    saved = [event for event in world.events(run) if event["type"] == "checkpoint"]
    assert [Path(event["path"]).name for event in saved] == ["epoch_0001_step_000001.pt"]
    (run / "stop.json").unlink()
    assert world.train_here(*base, "--output_dir", str(run), "--resume", "auto") == 0
    whole, gone_on = (world.weights(folder / "epoch_0.pth") for folder in (tmp_path / "whole", run))
    assert world.same(whole, gone_on)


def test_two_processes_take_the_steps_of_one(listed: Path, tmp_path: Path) -> None:
    words = (
        *world.SMALL, "--path", str(listed), "--bs", "4", "--niter", "3", *world.RARE,
        "--dropout", "0", "--head_dropout", "0", "--print_freq", "1",
    )  # fmt: skip
    losses: list[list[float]] = []
    for processes in (1, 2):
        run = tmp_path / str(processes)
        ended = world.program("train.py", *words, run=run, processes=processes)
        assert ended.returncode == 0, ended.stderr[-2000:]
        losses.append([float(value) for value in re.findall(r"loss: +([\d.]+),", ended.stdout)])
        assert "2 GPUs = 4 effective" in ended.stdout or processes == 1
    assert len(losses[0]) == 6
    # The log has four decimals.
    assert losses[0] == pytest.approx(losses[1], abs=1.01e-4)
    one, two = (world.weights(tmp_path / name / "epoch_2.pth") for name in ("1", "2"))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], atol=2e-3, rtol=0)


def test_accumulated_parts_make_the_same_step(listed: Path, tmp_path: Path) -> None:
    words = ("--path", str(listed), "--bs", "4", "--niter", "1", *world.RARE)
    words += ("--dropout", "0", "--head_dropout", "0", "--up_convolutions", "3")
    for parts in ("1", "4"):
        folder = str(tmp_path / parts)
        assert world.train_here(*words, "--accumulate", parts, "--output_dir", folder) == 0
    one, four = (world.weights(tmp_path / name / "epoch_0.pth") for name in ("1", "4"))
    moved = torch.cat([(one[name] - four[name]).flatten() for name in one])
    # Adam's first steps are as long as the rate whatever the gradient, so noise in it can show.
    assert float(moved.abs().mean()) < 2e-6


@pytest.mark.parametrize("flag", ["--model", "--resume"])
def test_going_on_from_a_published_checkpoint(listed: Path, tmp_path: Path, flag: str) -> None:
    words = ("--path", str(listed), "--bs", "5", *world.RARE)
    assert world.train_here(*words, "--niter", "1", "--output_dir", str(tmp_path / "first")) == 0
    content = load(tmp_path / "first" / "epoch_0.pth")
    state = content["model_state"]
    shells = {name.replace("model.", "model.module._orig_mod.", 1): state[name] for name in state}
    published = tmp_path / "epoch_1999.pth"
    optimiser = content["optimizer_state"]
    torch.save({"epoch": 1999, "model_state": shells, "optimizer_state": optimiser}, published)
    on = (flag, str(published), "--niter", "2001", "--output_dir", str(tmp_path / "on"))
    assert world.train_here(*words, *on) == 0
    log = (tmp_path / "on" / "train.log").read_text()
    assert f"Resuming from checkpoint {published} at epoch 2000" in log
    assert "[2000/2001][  0/  2]" in log
    after = load(tmp_path / "on" / "epoch_2000.pth")
    assert after["epoch"] == 2000
    assert all(entry["step"] == 4 for entry in after["optimizer_state"]["state"].values())
    # As a restart does it: where the run has a checkpoint of its own, that one counts.
    again = ("--model", str(published), "--resume", "auto", "--output_dir", str(tmp_path / "on"))
    assert world.train_here(*words, *again, "--niter", "2002") == 0
    log = (tmp_path / "on" / "train.log").read_text()
    assert "checkpoints/epoch_2001.pt at epoch 2001" in log


def test_beginning_with_exported_weights_of_a_narrower_network(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ("--path", str(listed), "--bs", "10", "--niter", "1")
    judged = ("--val_samples", "1", "--vizIter", "0", "--diagIter", "0", "--no-tensorboard")
    first = ("--export_half", "--output_dir", str(tmp_path / "first"))
    assert world.train_here(*base, *judged, "--val_freq", "1", *first) == 0
    path = tmp_path / "first" / "checkpoints" / "pcdiff.safetensors"
    halved, about = read_weights(path)
    assert {tensor.dtype for tensor in halved.values()} == {torch.float16}
    trained = world.weights(tmp_path / "first" / "epoch_0.pth")
    assert trained.keys() == {f"model.{name}" for name in halved}
    assert about["sizes"]["up_convolutions"] == 1 and "fp_layers.0.2.voxel_layers.0.weight" not in (
        halved
    )
    network, _, _ = load_network(path, {"up_convolutions": 1}, "auto", torch.device("cpu"))
    still = ("--model", str(path), "--lr", "1e-9", "--ema_decay", "0.9")
    assert world.train_here(*base, *world.RARE, *still, "--output_dir", str(tmp_path / "on")) == 0
    log = (tmp_path / "on" / "train.log").read_text()
    assert f"Beginning with the weights of {path} (epoch 1 there)" in log
    after = world.weights(tmp_path / "on" / "epoch_0.pth")
    assert all(
        torch.allclose(after[f"model.{name}"], tensor, rtol=0, atol=1e-7)
        for name, tensor in network.state_dict().items()
    )
    for words, told in (
        (("--num_nn", "32"), "its implant_points is 64, and this run's 32"),
        (("--model_mean_type", "v"), "its model_mean_type is eps, and this run's v"),
        (("--up_convolutions", "2"), "its weights are another network's"),
    ):
        assert world.train_here(*base, *world.RARE, *still, *words, "--output_dir",
                                str(tmp_path / "not")) == 2  # fmt: skip
        assert told in capsys.readouterr().err


def test_half_precision_trains(listed: Path, tmp_path: Path) -> None:
    words = ("--path", str(listed), "--bs", "10", "--niter", "2", *world.RARE)
    half = ("--amp", "--amp-dtype", "bfloat16", "--print_freq", "1", "--loss_type", "mse_minsnr")
    assert world.train_here(*words, *half, "--output_dir", str(tmp_path)) == 0
    losses = re.findall(r"loss: +([\d.]+),", (tmp_path / "train.log").read_text())
    assert len(losses) == 2 and all(0 < float(loss) < 100 for loss in losses)


def test_a_killed_run_leaves_a_checkpoint_to_go_on_from(listed: Path, tmp_path: Path) -> None:
    base = ("--path", str(listed), "--bs", "5", *world.RARE)
    folder = ("--output_dir", str(tmp_path), "--checkpoint_freq", "1")
    assert world.train_here(*base, *folder, "--niter", "2") == 0
    newest = max((tmp_path / "checkpoints").glob("epoch_*.pt"))
    newest.write_bytes(newest.read_bytes()[:1000])
    assert world.train_here(*base, *folder, "--niter", "3", "--resume", "auto") == 0
    log = (tmp_path / "train.log").read_text()
    assert "the one before it is tried" in log and "at epoch 1" in log


def test_rates_follow_the_epoch_alone() -> None:
    import argparse

    settings: Any = argparse.Namespace(
        lr_warmup_epochs=10, lr_warmup_start_factor=0.01, lr_scheduler="cosine", lr_gamma=0.5,
        cosine_T_max=100, cosine_eta_min=1e-6,
    )  # fmt: skip
    rates = [rate_of_epoch(epoch, 2e-4, settings) for epoch in (0, 5, 10, 60, 110, 160)]
    expected = [2e-6, 1.01e-4, 2e-4, 1.005e-4, 1e-6, 1e-6]
    assert rates == pytest.approx(expected)
    settings.cosine_T_max, settings.niter = 0, 110
    assert [rate_of_epoch(epoch, 2e-4, settings) for epoch in (0, 5, 10, 60, 110, 160)] == rates
    settings.lr_scheduler = "exponential"
    assert rate_of_epoch(12, 2e-4, settings) == pytest.approx(5e-5)
