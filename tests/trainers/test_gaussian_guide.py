"""The guide's path from photographs to Gaussians, every step its own program; and what
preprocessing refuses.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for needed in ("skimage", "onnx", "onnxruntime"):
    pytest.importorskip(needed)

from tests.warm import TORCH  # noqa: E402

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parents[1] / "trainers" / "gaussian"
pytestmark = [pytest.mark.trainers, pytest.mark.timeout(600)]
TRAIN = ("train_gaussian_decoder.py", "--experiment", "2", "--data_dir", "images/training")
TINY = ("--image_size", "64", "--batch_size", "4", "--device", "cpu", "--threads", "1")


def start(folder: Path, program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name != "FRESNEL_RUN_DIR"}
    return TORCH.start(
        [sys.executable, str(PROGRAMS / program), *arguments],
        cwd=folder,
        env=kept | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(folder: Path, program: str, *arguments: str, code: int = 0, **variables: str) -> str:
    process = start(folder, program, *arguments, **variables)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == code, out + errors
    return out + errors


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A folder as the guide has it, with features and depth made by the program."""
    folder = tmp_path_factory.mktemp("project")
    made = subprocess.run(
        [sys.executable, str(HERE / "gaussian_stand_ins.py"), str(folder)], timeout=60
    )
    assert made.returncode == 0
    told = run(folder, "preprocess_training_data.py", "--data_dir", "images/training")
    assert "made         10 images, 0 were there already" in told
    return folder


def features(project: Path) -> Path:
    return project / "images" / "training" / "features"


def test_preprocessing_writes_upstreams_files_and_goes_on_where_it_stopped(project: Path) -> None:
    files = features(project)
    assert len(list(files.glob("*_dinov2.bin"))) == len(list(files.glob("*_depth.bin"))) == 10
    assert {path.stat().st_size for path in files.glob("*_dinov2.bin")} == {2_102_784}
    assert {path.stat().st_size for path in files.glob("*_depth.bin")} == {262_144}
    assert json.loads((files / "depth_polarity.json").read_text())["polarity"] == "disparity"
    grid = np.fromfile(files / "photo_0_dinov2.bin", dtype="<f4").reshape(37, 37, 384)
    assert np.abs(grid).max() < 99, "the class token is dropped"
    depth = np.fromfile(files / "photo_0_depth.bin", dtype="<f4")
    assert depth.min() >= 0 and depth.max() > 0.9
    before = (files / "photo_3_dinov2.bin").read_bytes()
    (files / "photo_3_dinov2.bin").write_bytes(before[:1000])
    told = run(project, "preprocess_training_data.py", "--data_dir", "images/training")
    assert "made         1 images, 9 were there already" in told
    assert (files / "photo_3_dinov2.bin").read_bytes() == before


def test_other_channels_polarities_and_pictures_are_refused_by_name(
    project: Path, tmp_path: Path
) -> None:
    data = ("--data_dir", "images/training")
    told = run(
        project,
        "preprocess_training_data.py",
        *data,
        "--dinov2_size",
        "base",
        "--features_model",
        "models/dinov2_small.onnx",
        code=2,
    )
    assert "answers 384 channels, not 768; it is --dinov2_size small" in told
    told = run(
        project, "preprocess_training_data.py", *data, "--depth_polarity", "distance", code=2
    )
    assert "says disparity, --depth_polarity says distance" in told
    told = run(project, "preprocess_training_data.py", *data, "--dinov2_size", "large", code=2)
    assert "there is no models/dinov2_large.onnx; make it with export_dinov2_model.py" in told
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    models = ("--features_model", str(project / "models/dinov2_small.onnx"), "--no-depth")
    told = run(
        tmp_path, "preprocess_training_data.py", "--data_dir", str(tmp_path), *models, code=1
    )
    assert "1 images cannot be read: " in told and "broken.jpg cannot be read" in told


def test_phase_two_finds_the_larger_features_and_refuses_the_old_decoder(project: Path) -> None:
    run(
        project,
        "preprocess_training_data.py",
        "--data_dir",
        "images/training",
        "--dinov2_size",
        "base",
        "--no-depth",
    )
    try:
        told = run(
            project,
            "train_gaussian_decoder.py",
            "--data_dir",
            "images/training",
            *TINY,
            "--epochs",
            "1",
            "--gaussians_per_patch",
            "1",
            "--no-export_onnx",
            "--output_dir",
            "larger",
            "--use_depth_fusion",
        )
        assert "DINOv2 features of 768 channels" in told
        told = run(
            project,
            "train_gaussian_decoder.py",
            "--data_dir",
            "images/training",
            *TINY,
            "--feature_dim",
            "384",
            "--gaussians_per_patch",
            "1",
            "--output_dir",
            "smaller",
            "--resume",
            "larger/exp2/decoder_exp2_lastcheckpoint.pt",
            "--use_depth_fusion",
            code=2,
        )
        assert "feature_dim is 768 there and 384 here" in told
    finally:
        for path in features(project).glob("*_dinov2_base.bin"):
            path.unlink()


def test_upstreams_checkpoint_goes_on_at_its_next_epoch(project: Path) -> None:
    from trainers.gaussian.decoder import DecoderSettings, make_decoder

    torch.manual_seed(0)
    decoder = make_decoder(DecoderSettings(gaussians_per_patch=1))
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-4)
    sum(part.sum() for part in decoder(torch.randn(1, 384, 37, 37))).backward()
    optimiser.step()
    theirs = project / "decoder_exp2_epoch2.pt"
    torch.save(
        {
            "epoch": 2,
            "model_state_dict": decoder.state_dict(),
            "config": {"data_dir": Path("images")},
            "optimizer_state_dict": optimiser.state_dict(),
            "losses": {"total": 1.0},
        },
        theirs,
    )
    common = (
        "train_gaussian_decoder.py",
        "--data_dir",
        "images/training",
        *TINY,
        "--epochs",
        "3",
        "--gaussians_per_patch",
        "1",
        "--no-export_onnx",
        "--resume",
        str(theirs),
    )
    told = run(project, *common, "--output_dir", "theirs")
    assert "the Fresnel project's: 2 whole epochs are done" in told
    assert "geometry upstream" in told
    assert "cannot be turned round" in told
    assert "Epoch 3 complete" in told and "Epoch 2 complete" not in told
    content = torch.load(project / "theirs/exp2/decoder_exp2_lastcheckpoint.pt", weights_only=True)
    assert content["geometry"] == "upstream"
    told = run(project, *common, "--output_dir", "turned", "--geometry", "patch", "--epochs", "1")
    assert "hidden layers taken over" in told
    assert "Epoch 1 complete" in told
