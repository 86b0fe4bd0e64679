"""The trainer as a program: alike under every launcher, exact after a kill, clear in errors."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
nibabel = pytest.importorskip("nibabel")

from tests.support import eventually  # noqa: E402
from tests.trainers import saved_state  # noqa: E402
from tests.trainers.said_once import series_of, told_twice  # noqa: E402
from tests.trainers.saved_state import differing_files  # noqa: E402
from tests.warm import TORCH  # noqa: E402
from trainers.cascade import sample  # noqa: E402
from trainers.cascade.make_patients import make_patients  # noqa: E402
from trainers.common.schedules import rate_at  # noqa: E402
from trainers.common.weights import read_weights, write_weights  # noqa: E402

pytestmark = pytest.mark.trainers
FOLDER = Path(__file__).resolve().parents[2] / "trainers" / "cascade"
SMALL = {
    "xray_config": {"img_size": 16, "num_views": 2},
    "stage_configs": [
        {"name": "stage1", "volume_size": [8] * 3, "voxel_dim": 16, "vit_depth": 1, "num_heads": 2,
         "head_channels": 4},
        {"name": "stage2", "volume_size": [16] * 3, "voxel_dim": 16, "vit_depth": 1, "num_heads": 2,
         "head_channels": 4, "patch_size": 4},
    ],
    "training": {"num_timesteps": 50, "batch_size": 4, "learning_rate": 1e-3,
                 "num_epochs_per_stage": 3, "ema_decay": 0.9, "warmup_steps": 2,
                 "sampling_steps": 2, "validation_patients": 1},
    "data": {"train_split": 0.8, "val_split": 0.1, "test_split": 0.1, "num_workers": 0,
             "augmentation": True},
    "logging": {"log_every_n_steps": 1},
}  # fmt: skip
TRAIN = ("--device", "cpu", "--threads", "1", "--no-tensorboard")


@pytest.fixture(scope="module")
def patients(tmp_path_factory) -> Path:
    """Ten made-up patients: eight to train on, one to validate, one to test."""
    path = tmp_path_factory.mktemp("patients") / "data"
    make_patients(path, 10, 16, 16, seed=1, shown=False)
    return path


@pytest.fixture(scope="module")
def config(tmp_path_factory, patients) -> Path:
    """A configuration of two very small stages."""
    path = tmp_path_factory.mktemp("config") / "small.json"
    path.write_text(json.dumps(SMALL | {"data": SMALL["data"] | {"dataset_path": str(patients)}}))
    return path


def surroundings(run: Path | None, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FRESNEL_", "ACCELERATE_"))}
    return kept | {"OMP_NUM_THREADS": "1", **more} | ({"FRESNEL_RUN_DIR": str(run)} if run else {})


def start(
    config: Path,
    folder: Path,
    *more: str,
    launcher=(),
    script="train.py",
    **variables: str,
):
    """Start the trainer with its run folder and checkpoints in `folder`."""
    command = [sys.executable, *launcher, str(FOLDER / script), "--config", str(config), *TRAIN]
    return TORCH.start(
        [*command, "--checkpoint_dir", str(folder / "checkpoints"), *more],
        env=surroundings(folder, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen, code: int = 0) -> str:
    """What a trainer printed, once it has ended with this code."""
    try:
        output, _ = process.communicate(timeout=250)
    finally:
        process.kill()
    assert process.returncode == code, output
    return output


def events(folder: Path, kind: str) -> list[dict]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


def losses(folder: Path) -> dict[int, float]:
    return {event["step"]: event["values"]["loss"] for event in events(folder, "metrics")}


def weights(folder: Path, name: str = "last.pt") -> dict:
    return saved_state.load(folder / "checkpoints" / name)


def torchrun(count: int) -> list[str]:
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, config):
    """Both stages without interruption, by plain python."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, finished(start(config, folder))


def test_a_run_says_what_it_does_and_how_it_compares(whole) -> None:
    folder, output = whole
    found = series_of(folder, output)
    assert told_twice(found) == [] and {"loss", "epoch/loss", "val_loss"} <= set(found)
    assert "patients 10 in" in output and "training 8, validation 1, test 1" in output
    assert "effective batch 4: 4 per device x 1 device(s) x 1 accumulated" in output
    assert "Training Stage 1/2: stage1" in output and "Training Stage 2/2: stage2" in output
    assert "Batch size: 4 per GPU (4 total effective)" in output
    assert re.search(
        r"^  Val   - Total: \d\.\d{6}, Diff: \d\.\d{6}, Phys: \d\.\d{6}$", output, re.M
    )
    assert re.search(r"beside  - mean volume .* back-projection .* stage before, enlarged ", output)
    assert "this model is not above mean volume" in output
    assert re.search(r"^  (above|below|not told apart from) zeros: ", output, re.M)
    summary = events(folder, "summary")[0]["values"]
    assert {
        "test_psnr",
        "test_ssim",
        "test_mae_hu",
        "test_mean_volume_psnr",
        "test_zeros_psnr",
    } <= summary.keys()
    names = {path.name for path in (folder / "checkpoints" / "images").iterdir()}
    assert {
        "stage1_inputs.png",
        "stage2_inputs.png",
        "stage2_epoch_0003.png",
        "stage2_test.png",
    } <= names
    assert [event["phase"] for event in events(folder, "phase")][:3] == [
        "loading",
        "warming up",
        "training",
    ]
    stages = [event["stage"] for kind in ("metrics", "epoch") for event in events(folder, kind)]
    assert set(stages) == {"stage 1/2", "stage 2/2"}


def test_checkpoints_are_named_for_their_stage_and_hold_what_upstream_s_held(whole) -> None:
    folder, _ = whole
    best = weights(folder, "stage2_best.pt")
    assert {
        "epoch",
        "model_state_dict",
        "optimizer_state_dict",
        "val_loss",
        "stage_name",
    } <= best.keys()
    assert best["stage_name"] == "stage2" and best["val_loss"] > 0
    assert {name.split(".")[1] for name in best["model_state_dict"]} == {"stage1", "stage2"}
    reported = {Path(event["path"]).name: event for event in events(folder, "checkpoint")}
    assert reported["stage1_best.pt"]["best"] and not reported["epoch_0006.pt"]["best"]
    first = weights(folder, "stage1_best.pt")["ema"]["weights"]
    for name, tensor in first.items():
        assert torch.equal(best["model_state_dict"][f"stages.stage1.{name}"], tensor), (
            "finished stages stay"
        )


@pytest.mark.parametrize(
    ("launcher", "script", "batch"),
    [(torchrun(1), "train_distributed.py", 4), (torchrun(2), "train_distributed.py", 2)],
    ids=["torchrun-1", "torchrun-2"],
)
def test_any_launcher_and_number_of_processes_give_the_same_losses(
    launcher, script: str, batch: int, tmp_path, whole, config
) -> None:
    straight = losses(whole[0])
    output = finished(
        start(
            config,
            tmp_path,
            "--batch_size",
            str(batch),
            launcher=launcher,
            script=script,
            MASTER_ADDR="127.0.0.1",
        )
    )
    assert output.count("Training completed!") == 1
    found = losses(tmp_path)
    assert found.keys() == straight.keys() and len(found) == 12
    assert max(abs(found[step] - straight[step]) for step in straight) < 1e-5


def test_accelerate_launch_gives_the_same_losses_and_its_flags_count(
    tmp_path, whole, config
) -> None:
    pytest.importorskip("accelerate")
    own = tmp_path / "home" / "accelerate" / "default_config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("compute_environment: LOCAL_MACHINE\nmixed_precision: bf16\nnum_processes: 1\n")
    launcher = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes=1",
                "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no"]  # fmt: skip
    output = finished(
        start(
            config,
            tmp_path,
            launcher=launcher,
            script="train_accelerate.py",
            HF_HOME=str(tmp_path / "home"),
        )
    )
    assert f"{own} counts only where the launcher's flags say nothing" in output
    assert "mixed precision no" in output and "torchrun --nproc_per_node=2" in output
    straight, found = losses(whole[0]), losses(tmp_path)
    assert max(abs(found[step] - straight[step]) for step in straight) < 1e-6


def test_accumulated_halves_are_the_whole_batch(tmp_path, whole, config) -> None:
    flags = ("--batch_size", "2", "--accumulation_steps", "2")
    finished(start(config, tmp_path, *flags))
    straight, found = losses(whole[0]), losses(tmp_path)
    assert max(abs(found[step] - straight[step]) for step in straight) < 1e-5


def test_a_gradient_that_is_not_shared_is_caught(tmp_path, config) -> None:
    """What upstream's torchrun trainer did: the model called past DistributedDataParallel."""
    script = tmp_path / "unshared.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(FOLDER.parents[1])!r})\n"
        "from trainers.cascade import run, train\n"
        "run.wrap_model = lambda model, ranks, **options: model\n"
        "sys.exit(train.main())\n"
    )
    output = finished(start(config, tmp_path, launcher=torchrun(2), script=str(script)), code=1)
    assert re.search(r"error: after step 1 the weights of rank\(s\) 1 differ from rank 0's", output)


def test_killed_in_the_middle_and_resumed_it_ends_like_one_that_never_stopped(
    tmp_path, whole, config
) -> None:
    process, resumed = start(config, tmp_path), []
    # Stage 1 is done and stage 2 has begun when the second best is there.
    eventually((tmp_path / "checkpoints" / "stage2_best.pt").is_file, 250)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    resumed = finished(start(config, tmp_path, "--resume_from", "auto"))
    assert re.search(r"resume +\S+epoch_000[3456]\.pt, ([6-9]|1[0-2]) steps done", resumed)
    for name in ("last.pt", "stage1_best.pt", "stage2_best.pt"):
        places = (folder / "checkpoints" / name for folder in (whole[0], tmp_path))
        assert differing_files(*places) == []
    last = events(whole[0], "summary")[0]["values"]
    assert events(tmp_path, "summary")[0]["values"] == last


@pytest.fixture
def asked_before_the_first_step(
    tmp_path, monkeypatch, keep_signals
) -> Callable[[Callable[[], int]], int]:
    """Has a training in this process be asked to stop when its patients are read."""
    from trainers.cascade import train

    shown = train.preview_inputs

    def asked(run: Any) -> None:
        shown(run)
        (tmp_path / "stop.json").write_text("{}")

    def trained(main: Callable[[], int]) -> int:
        with monkeypatch.context() as here:
            here.setattr(train, "preview_inputs", asked)
            code = main()
        (tmp_path / "stop.json").unlink()
        return code

    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    return trained


def test_stopped_inside_an_epoch_it_goes_on_from_the_step(
    tmp_path, whole, config, asked_before_the_first_step, processes_begun, capfd
) -> None:
    """By one worker for the epochs of a stage."""
    from trainers.cascade import train

    folder = tmp_path / "checkpoints"
    words = ["--config", str(config), *TRAIN, "--checkpoint_dir", str(folder)]
    assert asked_before_the_first_step(lambda: train.main(words)) == 0
    assert "stopped on request (the stop file)" in capfd.readouterr().out
    assert weights(tmp_path)["position"]["used"] == 4, "one batch of the first epoch"
    more = ("--resume_from", str(folder / "last.pt"), "--num_workers", "1")
    assert train.main([*words, *more]) == 0
    assert len(processes_begun) == 2
    places = (folder / "checkpoints" / "last.pt" for folder in (whole[0], tmp_path))
    assert differing_files(*places) == []


def test_what_no_stage_could_load_and_logs_that_cannot_be_written_are_refused_before_a_file(
    tmp_path, config, capsys, keep_signals, little_shared_memory
) -> None:
    """The second stage's patients are too large for the workers, the first one's are not."""
    from trainers.cascade import train

    words = ["--config", str(config), "--checkpoint_dir", str(tmp_path / "out"), *TRAIN]
    little_shared_memory(50_000)
    assert train.main([*words, "--num_workers", "1"]) == 2
    assert "GiB of /dev/shm, 1 worker(s)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    logs = ["--tensorboard", "--log_dir", str(tmp_path / "file" / "logs")]
    assert train.main([*words, *logs]) == 2
    assert f"error: --log_dir: {logs[-1]} cannot be written: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_patients_kept_in_memory_are_read_once_for_all_workers_and_resumes(
    tmp_path, whole, config, monkeypatch, asked_before_the_first_step, processes_begun, capfd
) -> None:
    """Stopped inside an epoch on the way, the result is that of a run that keeps none."""
    from trainers.cascade import train
    from trainers.cascade.dataset import PatientData

    read, told = PatientData.volume, tmp_path / "told"

    def noted(data, patient):
        with told.open("a") as file:
            file.write(f"{patient.name} {data.size}\n")
        return read(data, patient)

    monkeypatch.setattr(PatientData, "volume", noted)
    folder = tmp_path / "checkpoints"
    flags = ["--config", str(config), *TRAIN, "--checkpoint_dir", str(folder)]
    kept = ["--cache_in_memory", "--num_workers", "2", "--resume_from", "auto-or-new"]
    assert asked_before_the_first_step(lambda: train.main([*flags, *kept])) == 0
    assert len(told.read_text().splitlines()) == 10 and len(processes_begun) == 2
    told.unlink()
    assert train.main([*flags, *kept]) == 0
    seen = told.read_text().splitlines()
    assert len(seen) == len(set(seen)) == 20, "ten patients at each of two sizes"
    assert len(processes_begun) == 2 + 4
    output = capfd.readouterr().out
    assert output.count("2 worker(s) with 2 batches each") == 3
    assert output.count("Kept in memory: all patients, 0.00 GiB a process") == 3
    places = (folder / "checkpoints" / "last.pt" for folder in (whole[0], tmp_path))
    assert differing_files(*places) == []


def test_another_batch_goes_on_as_far_in_the_schedule_with_the_history_before_it(
    tmp_path, whole, config, monkeypatch, keep_signals, first_gradient_spoiled, capfd
) -> None:
    """Twice the devices are half the steps; and a step that is left out is no loss."""
    from trainers.cascade import train

    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    fifth = whole[0] / "checkpoints" / "epoch_0005.pt"
    more = ["--resume_from", str(fifth), "--batch_size", "8"]
    folder = ["--checkpoint_dir", str(tmp_path / "checkpoints")]
    assert train.main(["--config", str(config), *TRAIN, *folder, *more]) == 0
    told = capfd.readouterr().err
    assert "resume: 10 steps were taken; by this batch and these data they are 8: counted" in told
    assert "the gradient is not finite; the step is left out" in told
    (step,) = events(tmp_path, "metrics")
    assert step["values"]["learning_rate"] == pytest.approx(rate_at(2, 3, 1e-3))
    (epoch,) = events(tmp_path, "epoch")
    assert epoch["values"]["loss"] is None and epoch["values"]["val_loss"] > 0
    history = json.loads((tmp_path / "checkpoints" / "history.json").read_text())
    assert [entry["epoch"] for entry in history["epochs"]] == [1, 2, 3, 4, 5, 6]


def test_a_validation_that_is_not_finite_is_one_line(
    tmp_path, config, monkeypatch, keep_signals, capfd
) -> None:
    from trainers.cascade import train

    monkeypatch.setattr(train, "validation_loss", lambda *_: {"val_loss": float("nan")})
    monkeypatch.setattr(train, "report_epoch", lambda *_: None)
    folder = ["--checkpoint_dir", str(tmp_path / "checkpoints")]
    assert train.main(["--config", str(config), *TRAIN, *folder, "--epochs", "1"]) == 1
    assert "error: stage1: the validation loss is not finite\n" in capfd.readouterr().err


def test_the_guide_s_resume_and_start_stage(tmp_path, whole, config) -> None:
    best = whole[0] / "checkpoints" / "stage1_best.pt"
    flags = ("--start_stage", "2", "--learning_rate", "5e-4")
    output = finished(
        start(config, tmp_path, "--resume_from", str(best), *flags, launcher=torchrun(2))
    )
    assert "Training Stage 1/2" not in output and "Training Stage 2/2: stage2" in output
    assert "1 process(es) wrote the checkpoint and 2 go on" in output
    assert "resume: training.learning_rate is 0.001 there and 0.0005 here" in output
    old, new = (
        weights(whole[0], "stage1_best.pt")["ema"]["weights"],
        weights(tmp_path)["model_state_dict"],
    )
    assert all(torch.equal(old[name], new[f"stages.stage1.{name}"]) for name in old)


def test_another_run_s_best_weights_in_the_folder_are_not_taken(tmp_path, whole, config) -> None:
    done, stale = whole[0] / "checkpoints", weights(whole[0], "stage2_best.pt")
    stale["position"]["best"] /= 2
    for tensor in stale["ema"]["weights"].values():
        tensor.zero_()
    (tmp_path / "checkpoints").mkdir()
    torch.save(stale, tmp_path / "checkpoints" / "stage2_best.pt")
    output = finished(start(config, tmp_path, "--resume_from", str(done / "last.pt")))
    assert "nothing left to train" in output
    exported, _ = read_weights(tmp_path / "checkpoints" / "cascade.safetensors")
    best = weights(whole[0], "stage2_best.pt")["ema"]["weights"]
    assert all(torch.equal(exported[f"stages.stage2.{name}"], best[name]) for name in best)


def test_stages_of_unlike_many_epochs_are_counted_as_they_are(tmp_path, config) -> None:
    own = json.loads(config.read_text())
    own["training"] |= {"num_epochs_stage1": 2, "num_epochs_stage2": 1}
    path = tmp_path / "own.json"
    path.write_text(json.dumps(own))
    output = finished(start(path, tmp_path))
    assert "Epoch 2/2 (time" in output and "Epoch 1/1 (time" in output
    told = events(tmp_path, "start")[0]
    assert (told["epochs"], told["steps"]) == (3, 6)
    assert [event["epoch"] for event in events(tmp_path, "epoch")] == [1, 2, 3]
    assert max(losses(tmp_path)) == 6
    # A stage that is begun anew counts on from the stages before.
    best = tmp_path / "checkpoints" / "stage1_best.pt"
    again = tmp_path / "again"
    again.mkdir()
    finished(start(path, again, "--resume_from", str(best), "--start_stage", "2"))
    assert [event["epoch"] for event in events(again, "epoch")] == [3]


def test_sigterm_ends_it_well(tmp_path, config) -> None:
    process = start(config, tmp_path, "--epochs", "1000")
    for line in process.stdout:
        if "[Train]" in line:
            break
    process.send_signal(signal.SIGTERM)
    output = finished(process)
    assert "stopped on request (SIGTERM)" in output
    assert (tmp_path / "checkpoints" / "last.pt").is_file()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--resume_from", "nowhere.pt"], "there is no file"),
        (["--start_stage", "2"], "--start_stage 2 needs --resume_from with stages 1 to 1"),
        (["--start_stage", "3"], "--start_stage 3: there are 2 stages"),
        (["--skip_verification"], "data are always checked"),
        (["--batch", "3"], "unknown argument --batch"),
        (["--dataset_path", "nowhere"], "there is no folder nowhere"),
        (["--device", "cuda"], "PyTorch sees no GPU here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    flags, expected: str, tmp_path, config, capfd, keep_signals, monkeypatch
) -> None:
    from trainers.cascade import train

    if torch.cuda.is_available() and "cuda" in flags:
        pytest.skip("there is a GPU")
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    try:
        code = train.main(
            ["--config", str(config), "--checkpoint_dir", str(tmp_path), *TRAIN[2:], *flags]
        )
    except SystemExit as ended:
        code = ended.code
    errors = capfd.readouterr().err
    assert code == 2 and errors.startswith("error: ") and errors.count("\n") == 1
    assert expected in errors


def test_another_model_s_checkpoint_is_refused_by_name(
    tmp_path, whole, config, capfd, keep_signals
) -> None:
    from trainers.cascade import train

    other = tmp_path / "other.json"
    content = json.loads(config.read_text())
    content["stage_configs"][0]["voxel_dim"] = 32
    other.write_text(json.dumps(content))
    path = whole[0] / "checkpoints" / "stage1_best.pt"
    flags = [
        "--config",
        str(other),
        "--checkpoint_dir",
        str(tmp_path / "c"),
        "--resume_from",
        str(path),
        *TRAIN,
    ]
    assert train.main(flags) == 2
    assert "stage 1 has voxel_dim 16 there and 32 here" in capfd.readouterr().err


def test_two_x_rays_become_a_ct(tmp_path, whole, patients, capsys) -> None:
    patient = patients / "patient_0000" / "patient_0000"
    output = tmp_path / "ct.nii.gz"
    checkpoint = whole[0] / "checkpoints" / "stage2_best.pt"
    command = [sys.executable, str(FOLDER / "sample.py"), "--checkpoint", str(checkpoint),
               "--frontal", f"{patient}_pa_drr.png", "--lateral", f"{patient}_lat_drr.png",
               "--output", str(output),
               "--samples", "3", "--steps", "4", "--device", "cpu", "--truth", f"{patient}.nii.gz",
               "--like", f"{patient}.nii.gz"]  # fmt: skip
    done = TORCH.run(command, env=surroundings(None), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert (
        re.search(r"PSNR \d+\.\d\d dB, SSIM", done.stdout) and "line integrals are" in done.stdout
    )
    made, truth = nibabel.load(output), nibabel.load(f"{patient}.nii.gz")
    assert made.shape == (16, 16, 16) and (made.affine == truth.affine).all()
    assert made.get_data_dtype() == "int16" and made.dataobj[:].min() >= -1024
    spread = nibabel.load(tmp_path / "ct_deviation.nii.gz")
    assert spread.dataobj[:].max() > 0 and (tmp_path / "ct.png").is_file()
    again = TORCH.run(command, env=surroundings(None), capture_output=True, text=True, timeout=250)
    assert again.stdout == done.stdout, "the same seed gives the same volume"
    # Nothing that is read is replaced, and what cannot be read is said before anything is made.
    before = output.stat().st_mtime_ns
    for name, place in (("--like", output), ("--truth", tmp_path / "ct_deviation.nii.gz"),
                        ("--frontal", tmp_path / "ct.png")):  # fmt: skip
        assert sample.main([*command[2:], name, str(place)]) == 2
        assert f"{place} is read here" in capsys.readouterr().err
    assert sample.main([*command[2:], "--truth", f"{patient}_pa_drr.png"]) == 2
    assert output.stat().st_mtime_ns == before
    capsys.readouterr()
    assert sample.main(command[2:6]) == 2
    assert "--lateral: this cascade was trained on frontal and lateral" in capsys.readouterr().err


def test_the_trained_cascade_is_exported_with_its_card(tmp_path, whole, patients, capfd) -> None:
    folder = whole[0] / "checkpoints"
    exported, described = read_weights(folder / "cascade.safetensors")
    best = weights(whole[0], "stage2_best.pt")
    for name, tensor in best["ema"]["weights"].items():
        assert torch.equal(exported[f"stages.stage2.{name}"], tensor), "the averaged weights"
    assert exported.keys() == best["model_state_dict"].keys() and len(described["levels"]) == 2
    card = (folder / "cascade.md").read_text()
    figure = events(whole[0], "summary")[0]["values"]["test_psnr"]
    assert "license: mit" in card and f"| test_psnr | {figure:.5g} |" in card
    assert "8 to train on, 1 to choose" in card and str(tmp_path.parent.parent) not in card
    stem = patients / "patient_0001" / "patient_0001"
    volumes = []
    for name in ("stage2_best.pt", "cascade.safetensors"):
        output = tmp_path / f"{name}.nii.gz"
        flags = ["--frontal", f"{stem}_pa_drr.png", "--lateral", f"{stem}_lat_drr.png", "--device",
                 "cpu", "--samples", "1", "--steps", "2", "--output", str(output)]  # fmt: skip
        assert sample.main(["--checkpoint", str(folder / name), *flags]) == 0
        volumes.append(nibabel.load(output).get_fdata())
    assert (volumes[0] == volumes[1]).all(), "the same weights, so the same volume"
    next(iter(best["ema"]["weights"].values())).view(-1)[0] = torch.nan
    torch.save(best, tmp_path / "diverged.pt")
    assert sample.main(["--checkpoint", str(tmp_path / "diverged.pt"), *flags]) == 2
    assert "take an earlier checkpoint" in capfd.readouterr().err
    broken = tmp_path / "other.safetensors"
    write_weights(broken, {"a": torch.ones(1)})
    assert sample.main(["--checkpoint", str(broken), *flags]) == 2
    assert "is not a checkpoint of this trainer" in capfd.readouterr().err
