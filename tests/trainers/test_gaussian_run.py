"""The trainer as a program: what it writes, how it stops, and that it goes on exactly."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

from PIL import Image  # noqa: E402

from tests.trainers.said_once import series_of, told_twice  # noqa: E402
from tests.trainers.saved_state import differing_files, load  # noqa: E402
from trainers.common.ema import Ema  # noqa: E402
from trainers.gaussian.trained import Trained, load_trained  # noqa: E402

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(600)]


SHORT = ("--epochs", "2", "--gaussians_per_patch", "1", "--no-export_onnx", "--no-tensorboard")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, run_trainer):
    """Two epochs without interruption, started in a folder that has a `trainers` package of its
    own.
    """
    home = tmp_path_factory.mktemp("whole")
    (home / "trainers").mkdir()
    (home / "trainers" / "__init__.py").write_text(
        "raise RuntimeError('the wrong trainers package')\n"
    )
    done = run_trainer(
        *SHORT, run_directory=home / "run", cwd=home, curves=True, PYTHONPATH=str(home)
    )
    assert done.returncode == 0, done.stderr
    return home / "run", done.stdout


def test_a_run_tells_what_it_does_and_how_it_went(whole) -> None:
    _, output = whole
    assert "626,065 parameters" in output
    assert "training images 4, held out 1" in output
    assert "not DINOv2 features" in output
    assert "effective batch 1: 1 per device x 1 device(s) x 1 accumulated" in output
    assert re.search("^epoch 1/2  step 1/4  loss [0-9.]+ ", output, re.MULTILINE)
    assert re.search("^shares +l1 [0-9]+ %, ssim [0-9]+ % of the loss$", output, re.MULTILINE)
    assert re.search(
        "^held out +PSNR .* dB, SSIM 0.*; the mean colour alone reaches", output, re.MULTILINE
    )


def test_events_follow_the_run(whole, read_events) -> None:
    run, output = whole
    assert told_twice(series_of(run, output)) == []
    events = read_events(run)
    started = read_events(run, "start")[0]
    assert (started["epochs"], started["steps"]) == (2, 8)
    assert started["settings"]["image_size"] == 32
    assert "resumed_from" not in started
    assert [event["type"] for event in events[-2:]] == ["summary", "end"]
    assert {4, 8} <= {event["step"] for event in read_events(run, "metrics")}
    assert {"warming up", "training", "validating", "saving"} <= {
        e["phase"] for e in read_events(run, "phase")
    }
    epochs = read_events(run, "epoch")
    assert [(event["epoch"], event["step"]) for event in epochs] == [(1, 4), (2, 8)]
    assert epochs[1]["values"]["loss"] < epochs[0]["values"]["loss"]
    names = (
        "loss",
        "held_out_psnr",
        "held_out_ssim",
        "mean_colour_psnr",
        "share_l1",
    )
    for name in names:
        assert events[-2]["values"][name] == epochs[1]["values"][name]
    # Speed and memory are reported with each step, and once.
    step = read_events(run, "metrics")[-1]["values"]
    history = json.loads((run / "history.json").read_text())
    for name in ("peak_memory_bytes", "data_wait_share", "samples_per_second"):
        assert name in step
        assert events[-2]["values"][name] == history["epochs"][-1]["values"][name]
        assert not any(name in epoch["values"] for epoch in epochs)


def test_files_are_on_disk_as_reported(whole, read_events) -> None:
    run, _ = whole
    reported = {Path(event["path"]).name: event for event in read_events(run, "checkpoint")}
    assert set(reported) == {"epoch_0001.pt", "epoch_0002.pt", "best.pt"}
    for name, event in reported.items():
        assert (run / "checkpoints" / name).stat().st_size == event["bytes"] > 5_000_000
    last = load(run / "decoder_exp2_lastcheckpoint.pt")
    assert {"model", "optimiser", "random", "position", "settings", "written_by"} <= last.keys()
    assert last["written_by"]["step"] == 8
    assert len(json.loads((run / "history.json").read_text())["epochs"]) == 2
    assert (run / "curves.png").is_file()
    pictures = [event["path"] for event in read_events(run, "image")]
    assert [Path(path).name for path in pictures] == [
        "inputs.png",
        "epoch_0001.png",
        "epoch_0002.png",
    ]
    for path in pictures:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert picture.width > 160


def test_the_trained_decoder_is_exported_with_its_card(whole, read_events) -> None:
    run, _ = whole
    exported = load_trained(run / "gaussian_decoder_exp2.safetensors")
    saved = load_trained(run / "decoder_exp2_lastcheckpoint.pt")
    assert same_weights(exported, saved.decoder.state_dict())
    told = ("feature_kind", "blur", "image_size", "writer")
    assert all(getattr(exported, name) == getattr(saved, name) for name in told)
    card = (run / "gaussian_decoder_exp2.md").read_text()
    figure = read_events(run, "summary")[0]["values"]["held_out_psnr"]
    assert f"| held_out_psnr | {figure:.5g} |" in card and "| training images | 4 |" in card
    assert "| source | crops of photographs that scikit-image" in card and "| seed | 0 |" in card
    assert str(run) not in card and "license: other" in card


def same_weights(exported: Trained, weights: dict[str, torch.Tensor]) -> bool:
    found = exported.decoder.state_dict()
    return all(torch.equal(part, weights[name]) for name, part in found.items())


def same(one: Path, other: Path) -> None:
    assert differing_files(one, other) == []


def test_a_stopped_and_resumed_run_ends_like_one_that_never_stopped(
    whole, tmp_path, run_trainer, read_events
) -> None:
    straight, _ = whole
    run = tmp_path / "run"
    run.mkdir()
    (run / "stop.json").symlink_to(run / "images" / "inputs.png")  # there once all is read
    stopped = run_trainer(*SHORT, run_directory=run)
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped on the stop file after step 1" in stopped.stdout
    saved = run / "checkpoints" / "epoch_0001_step_000001.pt"
    assert not read_events(run, "summary")

    (run / "stop.json").unlink()
    resumed = run_trainer(*SHORT, "--resume", "auto", run_directory=run)
    assert resumed.returncode == 0, resumed.stderr
    assert (read_events(run, "start")[1]["resumed_from"], read_events(run, "start")[1]["step"]) == (
        str(saved),
        1,
    )
    same(*(folder / "checkpoints" / "epoch_0002.pt" for folder in (run, straight)))


FAST = (
    "--epochs",
    "3",
    "--progressive_schedule",
    "--image_size",
    "64",
    "--fast_mode",
    "--stochastic_k",
    "500",
    "--no-export_onnx",
    "--no-tensorboard",
    "--ema",
    "0.9",
    "--dropout",
    "0.1",
    "--gaussians_per_patch",
    "2",
    "--max_images",
    "4",
)


def test_killed_at_any_moment_it_goes_on_to_the_bit(
    tmp_path, run_trainer, start_trainer, read_events
) -> None:
    """Windows, random and split Gaussians, dropout and averaged weights included; each kill at a
    later line.
    """
    straight = tmp_path / "elsewhere" / "straight"
    assert run_trainer(*FAST, run_directory=straight).returncode == 0
    run = tmp_path / "here" / "run"
    for moment in ("step 1/", "epoch_0001.pt"):
        trainer = start_trainer(*FAST, "--resume", "auto-or-new", run_directory=run)
        for line in trainer.stdout:
            if moment in line:
                break
        trainer.kill()
        trainer.communicate()
    more = ("--resume", "auto-or-new", "--workers", "2")
    done = run_trainer(*FAST, *more, run_directory=run)
    assert done.returncode == 0, done.stderr
    same(*(folder / "checkpoints" / "epoch_0003.pt" for folder in (run, straight)))
    judged = ["held_out_psnr" in event["values"] for event in read_events(straight, "epoch")]
    assert judged == [False, False, True], "cheap epochs are judged every fifth time"
    same(*(folder / "checkpoints" / "best.pt" for folder in (run, straight)))
    exported = load_trained(run / "gaussian_decoder_exp2.safetensors")
    averaged = load(run / "checkpoints" / "epoch_0003.pt")["ema"]["weights"]
    assert same_weights(exported, averaged), "what was judged is what is exported"


def test_sigterm_saves_and_ends_well_and_the_checkpoint_is_refused_by_another_decoder(
    tmp_path, start_trainer, run_trainer, read_events
) -> None:
    trainer = start_trainer(*SHORT, "--epochs", "1000", run_directory=tmp_path)
    try:
        for line in trainer.stdout:
            if " step " in line:
                break
        trainer.send_signal(signal.SIGTERM)
        rest, _ = trainer.communicate(timeout=60)
    finally:
        trainer.kill()
    assert trainer.returncode == 0, rest
    last = read_events(tmp_path, "checkpoint")[-1]
    assert f"resume with  --resume {last['path']}" in rest
    assert Path(last["path"]).stat().st_size == last["bytes"]

    refused = run_trainer(
        "--resume", last["path"], "--gaussians_per_patch", "2", "--output_dir", str(tmp_path)
    )
    assert refused.returncode == 2
    assert "gaussians_per_patch is 1 there and 2 here" in refused.stderr


SAME = (
    "--epochs",
    "2",
    "--dropout",
    "0",
    "--no-export_onnx",
    "--no-tensorboard",
    "--renderer",
    "torch",
)


def test_two_ranks_with_half_the_batch_learn_what_one_does(
    tmp_path, run_trainer, read_events
) -> None:
    losses = {}
    for processes, batch in ((1, 2), (2, 1)):
        folder = tmp_path / str(processes)
        arguments = (*SAME, "--batch_size", str(batch))
        done = run_trainer(*arguments, run_directory=folder, processes=processes)
        assert done.returncode == 0, done.stderr
        losses[processes] = [event["values"]["loss"] for event in read_events(folder, "epoch")]
        assert [(e["epoch"], e["step"]) for e in read_events(folder, "epoch")] == [(1, 2), (2, 4)]
    assert losses[1] == pytest.approx(losses[2], abs=1e-5)


def test_two_ranks_write_once_stop_together_and_go_on(tmp_path, run_trainer, read_events) -> None:
    (tmp_path / "stop.json").symlink_to(tmp_path / "images" / "inputs.png")
    stopped = run_trainer(*SHORT, "--epochs", "1", run_directory=tmp_path, processes=2)
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.count("stopped on the stop file") == 1
    assert len(read_events(tmp_path, "checkpoint")) == 1

    (tmp_path / "stop.json").unlink()
    more = (*SHORT, "--epochs", "1", "--resume", "auto", "--workers", "1")
    done = run_trainer(*more, run_directory=tmp_path, processes=2)
    assert done.returncode == 0, done.stderr
    assert [(event["epoch"], event["step"]) for event in read_events(tmp_path, "epoch")] == [(1, 2)]
    assert len(read_events(tmp_path, "summary")) == 1


def test_a_gpu_that_was_given_and_is_not_seen_is_no_silent_cpu(tmp_path, run_trainer) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run_trainer("--device", "auto", cwd=tmp_path, FRESNEL_GPU_COUNT="1")
    assert done.returncode == 2
    assert "1 GPU(s) given (FRESNEL_GPU_COUNT), but PyTorch sees none" in done.stderr


def main(arguments: list[str], capfd) -> tuple[int, str, str]:
    from trainers.gaussian import train

    try:
        code = train.main(arguments)
    except SystemExit as ended:
        code = ended.code
    told = capfd.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--epochs", "0"], "--epochs: 0 is not at least 1"),
        (["--lr", "nan"], "--lr: nan is not between 0 and 10"),
        (["--features", "dinov2"], "--features dinov2 needs --data_dir"),
        (["--feature_dim", "768"], "pixel descriptors have 384"),
        (["--data_dir", "nowhere"], "there is no folder nowhere"),
        (["--resume", "nowhere.pt"], "there is no file "),
        (["--experiment", "1"], "refines SAAG Gaussians that upstream never ships"),
        (["--experiment", "3"], "a placeholder upstream"),
        (
            ["--experiment", "4", "--use_depth_fusion"],
            "--use_depth_fusion belongs to --experiment 2",
        ),
        (["--use_depth_fusion"], "--use_depth_fusion needs depth files"),
        (["--multi_pose_augmentation"], "--multi_pose_augmentation needs depth files"),
        (["--use_pose_encoding"], "--use_pose_encoding needs --multi_pose_augmentation"),
        (["--use_wave_rendering"], "the wave-optics renderers are left out"),
        (["--use_qsr"], "the wave-optics renderers are left out"),
        (["--wavelength", "0.05"], "the wave-optics renderers are left out"),
        (["--phase_retrieval_weight", "0.1"], "use --use_frequency_loss"),
        (["--use_fresnel_zones"], "it snaps measured depth to 8 planes"),
        (["--use_edge_aware"], "learned for every Gaussian"),
        (["--use_tensegrity_loss"], "no task that it helps"),
        (["--occ_weight", "2.7"], "train_direct_decoder.py"),
        (["--save_interval", "5"], "use --checkpoint_every"),
        (["--renderer", "gsplat"], "needs a CUDA device"),
        (["--train_window", "3"], "fewer than the 11 pixels SSIM needs"),
        (["--lpips_dir", "nowhere"], "--lpips_dir: no nowhere"),
        (["--gaussians", "5"], "unknown argument --gaussians; the nearest is"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, tmp_path, monkeypatch, capfd, keep_signals
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    code, _, errors = main([*arguments, "--device", "cpu"], capfd)
    assert code == 2
    assert errors.startswith("error: ") and errors.count("\n") == 1
    assert expected in errors


def test_the_largest_batch_is_probed_without_training(
    tmp_path, monkeypatch, capfd, keep_signals
) -> None:
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    arguments = [
        "--probe_batch",
        "--image_size",
        "16",
        "--max_images",
        "4",
        "--gaussians_per_patch",
        "1",
        "--device",
        "cpu",
        "--output_dir",
        str(tmp_path),
    ]
    code, told, _ = main(arguments, capfd)
    assert code == 0
    assert re.search("batch     8  peak [0-9.]+ GiB", told)
    assert "8 fits at 16 px; larger ones are not tried on a CPU" in told
    assert not list((tmp_path / "checkpoints").glob("*.pt"))
    # What a driver says that is asked past PyTorch's allocator.
    from trainers.gaussian import train

    drawn = train.batch_loss

    def short(run: Any, batch: dict[str, Any]) -> Any:
        if len(batch["image"]) > 2:
            raise RuntimeError("CUDA error: out of memory")
        return drawn(run, batch)

    monkeypatch.setattr(train, "batch_loss", short)
    code, told, _ = main(arguments, capfd)
    assert code == 0 and "batch     4  does not fit" in told and "2 fits at 16 px" in told


def test_a_loss_that_stays_not_finite_fails_the_run(
    tmp_path, monkeypatch, capfd, keep_signals
) -> None:
    from trainers.gaussian import losses

    monkeypatch.setattr(
        losses, "ssim", lambda first, second: first.mean(dim=(1, 2, 3)) * float("nan")
    )
    averaged: list[Any] = []
    monkeypatch.setattr(Ema, "update", lambda *_: averaged.append(_))
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    code, _, errors = main(
        [
            "--ema",
            "0.9",
            "--max_images",
            "20",
            "--image_size",
            "16",
            "--batch_size",
            "1",
            "--device",
            "cpu",
            "--output_dir",
            str(tmp_path),
            "--gaussians_per_patch",
            "1",
        ],
        capfd,
    )
    assert code == 1 and averaged == []
    assert errors.count("the gradient is not finite") >= 9
    assert "no finite gradient in 10 steps in a row" in errors
    assert not list((tmp_path / "checkpoints").glob("*.pt"))
