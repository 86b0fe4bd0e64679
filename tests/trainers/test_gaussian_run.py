"""The trainer as a program: what it writes, how it stops, and that it goes on exactly."""

import re
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

from PIL import Image  # noqa: E402

pytestmark = pytest.mark.trainers


@pytest.fixture(scope="module")
def whole(tmp_path_factory, run_trainer):
    """Two epochs without interruption, started in a folder that has a `trainers` package of its own."""
    home = tmp_path_factory.mktemp("whole")
    (home / "trainers").mkdir()
    (home / "trainers" / "__init__.py").write_text(
        "raise RuntimeError('the wrong trainers package')\n"
    )
    done = run_trainer("--epochs", "2", run_directory=home / "run", cwd=home, PYTHONPATH=str(home))
    assert done.returncode == 0, done.stderr
    return home / "run", done.stdout


def load(path: Path):
    return torch.load(path, weights_only=True)


def test_a_run_tells_what_it_does_and_how_it_went(whole) -> None:
    _, output = whole
    assert "632,257 parameters" in output
    assert "8 for training, 2 held out" in output
    assert "not DINOv2 features" in output
    assert re.search(r"^epoch 1/2  step 1/4  loss \d\.\d+ ", output, re.MULTILINE)
    assert re.search(
        r"^held out +PSNR \d+\.\d+ dB, SSIM 0\.\d+; the mean colour alone reaches",
        output,
        re.MULTILINE,
    )


def test_events_follow_the_run(whole, read_events) -> None:
    run, _ = whole
    events = read_events(run)
    assert all(isinstance(event["time"], float) for event in events)
    assert (events[0]["type"], events[0]["epochs"], events[0]["steps"]) == ("start", 2, 8)
    assert events[0]["settings"]["image_size"] == 32
    assert "resumed_from" not in events[0]
    assert events[-1]["type"] == "summary"
    assert {4, 8} <= {event["step"] for event in read_events(run, "metrics")}
    epochs = read_events(run, "epoch")
    assert [(event["epoch"], event["step"]) for event in epochs] == [(1, 4), (2, 8)]
    assert epochs[1]["values"]["loss"] < epochs[0]["values"]["loss"]
    for name in ("loss", "held_out_psnr", "held_out_ssim", "mean_colour_psnr"):
        assert events[-1]["values"][name] == epochs[1]["values"][name]


def test_checkpoints_are_on_disk_as_reported(whole, read_events) -> None:
    run, _ = whole
    reported = {event["path"]: event for event in read_events(run, "checkpoint")}
    on_disk = {str(path) for path in (run / "checkpoints").iterdir()}
    assert (
        set(reported)
        == on_disk
        == {str(run / "checkpoints" / n) for n in ("epoch_0001.pt", "epoch_0002.pt", "best.pt")}
    )
    for path, event in reported.items():
        assert Path(path).stat().st_size == event["bytes"] > 5_000_000
    last = load(run / "checkpoints" / "epoch_0002.pt")
    assert {
        "model",
        "optimiser",
        "schedule",
        "random",
        "progress",
        "settings",
        "global_step",
    } <= last.keys()


def test_the_picture_shows_photographs_and_renders(whole, read_events) -> None:
    run, _ = whole
    path = read_events(run, "image")[-1]["path"]
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width > 2 * 160


def test_a_stopped_and_resumed_run_ends_like_one_that_never_stopped(
    whole, tmp_path, run_trainer, read_events
) -> None:
    straight, _ = whole
    run = tmp_path / "run"
    run.mkdir()
    (run / "stop.json").write_text("{}")
    stopped = run_trainer("--epochs", "2", run_directory=run)
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped on request after epoch 1 step 1; checkpoint " in stopped.stdout
    saved = run / "checkpoints" / "epoch_0001_step_000001.pt"
    assert [path.name for path in (run / "checkpoints").iterdir()] == [saved.name]
    assert not read_events(run, "summary")

    (run / "stop.json").unlink()
    resumed = run_trainer("--epochs", "2", "--resume", "auto", run_directory=run)
    assert resumed.returncode == 0, resumed.stderr
    assert (read_events(run, "start")[1]["resumed_from"], read_events(run, "start")[1]["step"]) == (
        str(saved),
        1,
    )
    assert read_events(run, "summary")[0]["values"] == read_events(straight, "summary")[0]["values"]
    mine, theirs = (load(folder / "checkpoints" / "epoch_0002.pt") for folder in (run, straight))
    assert all(torch.equal(mine["model"][name], theirs["model"][name]) for name in theirs["model"])
    assert mine["optimiser"]["state"].keys() == theirs["optimiser"]["state"].keys()


def test_sigterm_saves_and_ends_well_and_the_checkpoint_is_refused_by_another_model(
    tmp_path, start_trainer, run_trainer, read_events
) -> None:
    trainer = start_trainer("--epochs", "1000", run_directory=tmp_path)
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
    assert refused.stderr.count("\n") == 1
    assert "gaussians_per_patch is 4 there and 2 here" in refused.stderr


def test_without_a_run_directory_nothing_is_reported(tmp_path, run_trainer) -> None:
    done = run_trainer(
        "--epochs",
        "1",
        "--keep",
        "1",
        "--stochastic_k",
        "600",
        "--progressive_schedule",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "output/checkpoints/epoch_0001.pt",
        "output/checkpoints/best.pt",
        "output/images/epoch_0001.png",
    }


def test_two_ranks_write_once_stop_together_and_go_on(tmp_path, run_trainer, read_events) -> None:
    (tmp_path / "stop.json").write_text("{}")
    stopped = run_trainer("--epochs", "1", run_directory=tmp_path, processes=2)
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.count("stopped on request") == 1
    assert (
        len(list((tmp_path / "checkpoints").iterdir()))
        == len(read_events(tmp_path, "checkpoint"))
        == 1
    )

    (tmp_path / "stop.json").unlink()
    done = run_trainer(
        "--epochs", "1", "--resume", "auto", "--workers", "1", run_directory=tmp_path, processes=2
    )
    assert done.returncode == 0, done.stderr
    assert [(event["epoch"], event["step"]) for event in read_events(tmp_path, "epoch")] == [(1, 2)]
    assert len(read_events(tmp_path, "summary")) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--epochs", "0"], "--epochs: 0 is not at least 1"),
        (["--lr", "nan"], "--lr: nan is not between 0 and 1"),
        (["--features", "dinov2"], "--features dinov2 needs --data_dir"),
        (["--feature_dim", "768"], "pixel descriptors have 384"),
        (["--data_dir", "nowhere"], "there is no folder nowhere"),
        (["--resume", "nowhere.pt"], "there is no file nowhere.pt"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, tmp_path, monkeypatch, capfd, keep_signals
) -> None:
    from trainers.gaussian import train

    monkeypatch.chdir(tmp_path)
    try:
        code = train.main(arguments)
    except SystemExit as ended:
        code = ended.code
    errors = capfd.readouterr().err
    assert code == 2
    assert errors.startswith("error: ") and errors.count("\n") == 1
    assert expected in errors


def test_a_loss_that_stays_not_finite_fails_the_run(
    tmp_path, monkeypatch, capfd, keep_signals
) -> None:
    from trainers.gaussian import train

    monkeypatch.setattr(
        train.losses, "ssim", lambda first, second: first.mean(dim=(1, 2, 3)) * float("nan")
    )
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    small = ["--max_images", "20", "--image_size", "16", "--batch_size", "1", "--device", "cpu"]
    assert train.main([*small, "--output_dir", str(tmp_path)]) == 1
    output = capfd.readouterr()
    assert output.out.count("is not finite") == 10
    assert "no finite loss in 10 batches in a row" in output.err
    assert not list((tmp_path / "checkpoints").iterdir())


def test_help_names_every_choice(capsys) -> None:
    from trainers.gaussian import train

    with pytest.raises(SystemExit) as ended:
        train.read_settings(["--help"])
    assert ended.value.code == 0
    assert "default: 64" in capsys.readouterr().out
