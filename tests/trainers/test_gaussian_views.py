"""Views from the side: what a photograph shows there by its depth, and training on it."""

import argparse
import math

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
pytest.importorskip("skimage")

from PIL import Image  # noqa: E402

from trainers.gaussian.views import random_poses, turned_photographs  # noqa: E402

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(300)]


def scene() -> tuple[torch.Tensor, torch.Tensor]:
    """A near red square in the middle of a far blue wall."""
    image, disparity = torch.zeros(1, 3, 64, 64), torch.zeros(1, 1, 64, 64)
    image[:, 2] = 1
    image[0, :, 24:40, 24:40] = torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1)
    disparity[0, 0, 24:40, 24:40] = 1
    return image, disparity


def pose(elevation: float, azimuth: float) -> torch.Tensor:
    return torch.deg2rad(torch.tensor([[elevation, azimuth]]))


def centre(red: torch.Tensor) -> tuple[float, float]:
    rows, columns = torch.nonzero(red > 0.5).double().mean(0).tolist()
    return rows, columns


def test_from_the_front_a_photograph_is_itself() -> None:
    image, disparity = scene()
    turned, known = turned_photographs(image, disparity, pose(0, 0))
    assert known.mean() > 0.95
    assert torch.equal(turned * known, image * known)


def test_what_is_near_moves_against_the_view() -> None:
    image, disparity = scene()
    turned, known = turned_photographs(image, disparity, pose(0, 20))
    red = (turned[0, 0] > 0.5) & (turned[0, 2] < 0.5)
    assert centre(red.double())[1] < 27
    assert 0.2 < known.mean() < 1
    turned, _ = turned_photographs(image, disparity, pose(20, 0))
    assert centre(((turned[0, 0] > 0.5) & (turned[0, 2] < 0.5)).double())[0] > 37


def test_from_behind_nothing_is_known() -> None:
    _, known = turned_photographs(*scene(), pose(0, 120))
    assert known.sum() == 0


def test_poses_keep_to_their_ranges_and_to_the_share_of_frontal_ones() -> None:
    settings = argparse.Namespace(
        pose_range_elevation=[-10.0, 20.0], pose_range_azimuth=[5.0, 90.0], frontal_prob=0.3
    )
    poses = torch.rad2deg(random_poses(4000, settings, torch.Generator().manual_seed(0)))
    frontal = (poses == 0).all(1)
    assert frontal.double().mean() == pytest.approx(0.3, abs=3 * math.sqrt(0.21 / 4000))
    others = poses[~frontal]
    assert others[:, 0].min() >= -10.001 and others[:, 0].max() <= 20.001
    assert others[:, 1].min() >= 4.999 and others[:, 1].max() <= 90.001


def test_a_decoder_learns_from_turned_views(
    tmp_path, monkeypatch, keep_signals, read_events
) -> None:
    from trainers.gaussian import train

    folder = tmp_path / "data"
    (folder / "features").mkdir(parents=True)
    image, disparity = scene()
    for number in range(4):
        pixels = (image[0].permute(1, 2, 0).numpy() * (255 - number)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"p{number}.png")
        disparity.numpy().astype("<f4").tofile(folder / "features" / f"p{number}_depth.bin")
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "run"))
    arguments = [
        "--data_dir",
        str(folder),
        "--features",
        "patch",
        "--image_size",
        "32",
        "--epochs",
        "3",
        "--batch_size",
        "1",
        "--device",
        "cpu",
        "--no-export_onnx",
        "--gaussians_per_patch",
        "1",
        "--multi_pose_augmentation",
        "--use_pose_encoding",
        "--use_depth_fusion",
        "--frontal_prob",
        "0.4",
        "--pose_range_azimuth",
        "-20",
        "20",
        "--use_frequency_loss",
        "--no-tensorboard",
    ]
    assert train.main(arguments) == 0
    epochs = [event["values"] for event in read_events(tmp_path / "run", "epoch")]
    assert epochs[-1]["loss"] < 0.5 * epochs[0]["loss"]
    frontal = [values for values in epochs if "frequency" in values]
    assert frontal and all(0 < values["ssim"] <= 1 for values in frontal)
    content = torch.load(tmp_path / "run" / "checkpoints" / "epoch_0003.pt", weights_only=True)
    assert "pose_encoder.mlp.0.weight" in content["model"]
    assert "depth_encoder.encoder.0.weight" in content["model"]
