"""The guide's path from ten photographs to Gaussians, top to bottom, every step from a preset."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for needed in ("skimage", "onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(needed)

from PIL import Image  # noqa: E402

from tests.support import eventually  # noqa: E402
from tests.warm import COMMANDS, TORCH  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
pytestmark = [pytest.mark.trainers, pytest.mark.timeout(600)]
DATA = {"data_dir": "images/training", "image_size": 64, "batch_size": 4}
NETWORKS = {
    "features_model": "models/dinov2_small.onnx",
    "depth_model": "models/depth_anything_v2_small.onnx",
}


def panel(folder: Path, *words: str) -> Any:
    """What a command of fresnel-tui answers as JSON; it must end well."""
    done = COMMANDS.run(
        [sys.executable, "-m", "fresnel_tui", "--no-ui", *words, "--json"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout)


def launch(folder: Path, preset: str, **settings: object) -> dict[str, Any]:
    """Launch a preset on the CPU and return what the panel knows of the run."""
    chosen = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return panel(folder, "launch", preset, "--gpus", "0", *chosen)


def through(folder: Path, preset: str, *more: str, **settings: object) -> tuple[str, Path]:
    """Run what a preset is planned as, by a warm interpreter; its output and run folder.

    What a supervisor does with a run is seen where one is killed and resumed.
    """
    chosen = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    planned = panel(folder, "plan", preset, "--gpus", "0", *chosen)
    run = Path(planned["directory"])
    run.mkdir(parents=True)
    done = TORCH.run(
        [sys.executable, *planned["argv"][1:], *more],
        cwd=folder,
        env=os.environ | {"FRESNEL_RUN_DIR": str(run), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout, run


def output(run: dict[str, Any]) -> str:
    """All that a run printed."""
    return "".join(
        path.read_text(errors="replace") for path in sorted(Path(run["directory"]).glob("*.log"))
    )


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    told = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in told if event["type"] == kind]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Ten photographs and networks of the right shapes, made by a script."""
    folder = tmp_path_factory.mktemp("path")
    script = HERE / "gaussian_stand_ins.py"
    assert TORCH.run([sys.executable, str(script), str(folder)], timeout=60).returncode == 0
    return folder


def test_from_photographs_to_gaussians_from_presets(place: Path) -> None:
    """Preprocess, validate, fast, kill, resume, evaluate, export, infer."""
    told, _ = through(place, "gaussian-preprocess")
    assert "made         10 images, 0 were there already" in told

    # What it exports to ONNX at its end is looked at in test_gaussian_files.py.
    short = {**DATA, "epochs": 1, "gaussians_per_patch": 1}
    told, validated = through(place, "gaussian-validate", "--no-export_onnx", **short)
    assert "training images 8, held out 2" in told
    assert "depth files (disparity)" in told
    assert events(validated, "epoch")[0]["values"]["held_out_psnr"] > 0

    long = {**DATA, "epochs": 5000, "checkpoint_every": 1, "workers": 0}
    own = place / "fast.yaml"
    shipped = (ROOT / "presets" / "gaussian-fast-local.yaml").read_text(encoding="utf-8")
    flags = "arguments: [--no-export_onnx, --no-tensorboard]"
    own.write_text(f"{shipped}\n{flags}\n", encoding="utf-8")
    fast = launch(place, str(own), **long)
    running = Path(fast["directory"])
    eventually(lambda: len(events(running, "checkpoint")) >= 2, 300, "two checkpoints")
    panel(place, "kill", fast["id"], "--wait")
    done = events(running, "checkpoint")[-1]["epoch"]
    resumed = panel(
        place, "launch", "--resume", fast["id"], "--set", f"epochs={done + 2}", "--wait"
    )
    folder = Path(resumed["directory"])
    epochs = [event["epoch"] for event in events(folder, "epoch")]
    # A checkpoint is announced once it is written: the kill may have come between.
    assert epochs in ([done + 1, done + 2], [done + 2])
    assert "windows of 8 x 8 patches" in output(fast)
    history = json.loads((folder / "training_history_exp2.json").read_text())
    assert len(history["total"]) >= 2 and 0 < history["ssim"][-1] < 1

    checkpoint = folder / "decoder_exp2_lastcheckpoint.pt"
    given = {"checkpoint": checkpoint, "data_dir": "images/training"}
    told, judged = through(place, "gaussian-evaluate", **given)
    assert "result       PSNR" in told
    sheet = Path(events(judged, "image")[0]["path"])
    with Image.open(sheet) as picture:
        assert picture.format == "PNG"
    figures = json.loads((sheet.parent / "figures.json").read_text())
    assert len(figures["photographs"]) == 2
    assert events(judged, "summary")[0]["values"] == pytest.approx(figures["means"])

    through(place, "gaussian-export", checkpoint=checkpoint)
    assert (place / "models" / "gaussian_decoder.onnx").stat().st_size > 2_000_000

    image = "images/training/photo_0.jpg"
    given = {"checkpoint": checkpoint, "image": image, **NETWORKS, "azimuth": 15}
    told, inferred = through(place, "gaussian-infer", **given)
    assert "5476 Gaussians of photo_0.jpg" in told
    looked_at(inferred)


def looked_at(folder: Path) -> None:
    """The files of an image: 5,476 Gaussians, its first patches on top, as viewers see it."""
    table = np.fromfile(folder / "photo_0.bin", dtype="<f4").reshape(5476, 14)
    header, _, body = (folder / "photo_0.ply").read_bytes().partition(b"end_header\n")
    assert b"element vertex 5476" in header
    known = np.frombuffer(body, dtype="<f4").reshape(5476, -1)
    assert np.allclose(known[:, :3], table[:, :3] * [1, -1, -1])
    assert known[: 37 * 4, 1].mean() < -0.5 < 0.5 < known[-37 * 4 :, 1].mean(), "y runs down"
    assert (known[:, 2] > 0).all(), "z runs forward"
    with Image.open(folder / "photo_0.png") as picture:
        assert picture.size == (64, 64)
