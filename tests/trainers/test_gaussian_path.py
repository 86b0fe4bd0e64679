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


def launch(folder: Path, preset: str, *words: str, **settings: object) -> dict[str, Any]:
    """Launch a preset on the CPU and return what the panel knows of the run."""
    chosen = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return panel(folder, "launch", preset, "--gpus", "0", *words, *chosen)


def output(run: dict[str, Any]) -> str:
    """All that a run printed."""
    return "".join(
        path.read_text(errors="replace") for path in sorted(Path(run["directory"]).glob("*.log"))
    )


def events(run: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    path = Path(run["directory"]) / "events.jsonl"
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
    made = launch(place, "gaussian-preprocess", "--wait")
    assert made["exit_code"] == 0
    assert "made         10 images, 0 were there already" in output(made)

    # Stopped once it has judged: exporting at a training's end is seen below, and takes longest.
    validated = launch(place, "gaussian-validate", **DATA, epochs=5000, gaussians_per_patch=1)
    eventually(lambda: events(validated, "epoch"), 300, "an epoch")
    panel(place, "stop", validated["id"], "--wait")
    assert "training images 8, held out 2" in output(validated)
    assert "depth files (disparity)" in output(validated)
    assert "stopped on" in output(validated)
    assert events(validated, "epoch")[0]["values"]["held_out_psnr"] > 0

    fast = launch(place, "gaussian-fast-local", **DATA, epochs=5000, checkpoint_every=1)
    eventually(lambda: len(events(fast, "checkpoint")) >= 2, 300, "two checkpoints")
    panel(place, "kill", fast["id"], "--wait")
    done = events(fast, "checkpoint")[-1]["epoch"]
    resumed = panel(
        place, "launch", "--resume", fast["id"], "--set", f"epochs={done + 2}", "--wait"
    )
    assert [event["epoch"] for event in events(resumed, "epoch")][-2:] == [done + 1, done + 2]
    assert "windows of 8 x 8 patches" in output(fast)
    folder = Path(resumed["directory"])
    assert (folder / "gaussian_decoder_exp2.onnx").stat().st_size > 2_000_000
    history = json.loads((folder / "training_history_exp2.json").read_text())
    assert len(history["total"]) >= 2 and 0 < history["ssim"][-1] < 1

    checkpoint = folder / "decoder_exp2_lastcheckpoint.pt"
    judged = launch(
        place, "gaussian-evaluate", "--wait", checkpoint=checkpoint, data_dir="images/training"
    )
    assert "result       PSNR" in output(judged)
    sheet = Path(events(judged, "image")[0]["path"])
    with Image.open(sheet) as picture:
        assert picture.format == "PNG"
    figures = json.loads((sheet.parent / "figures.json").read_text())
    assert len(figures["photographs"]) == 2
    assert events(judged, "summary")[0]["values"] == pytest.approx(figures["means"])

    launch(place, "gaussian-export", "--wait", checkpoint=checkpoint)
    assert (place / "models" / "gaussian_decoder.onnx").stat().st_size > 2_000_000

    image = "images/training/photo_0.jpg"
    inferred = launch(
        place,
        "gaussian-infer",
        "--wait",
        checkpoint=checkpoint,
        image=image,
        **NETWORKS,
        azimuth=15,
    )
    assert "5476 Gaussians of photo_0.jpg" in output(inferred)
    looked_at(Path(inferred["directory"]))


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
