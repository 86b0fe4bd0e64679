"""Features and depth by transformers' folders: the same files as by ONNX, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
for needed in ("skimage", "onnx", "onnxscript", "onnxruntime", "transformers", "safetensors"):
    pytest.importorskip(needed)

from PIL import Image  # noqa: E402

from tests.trainers.gaussian_stand_ins import (  # noqa: E402
    make_depth_folder,
    make_dinov2_folder,
    make_photographs,
)
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.gaussian import (  # noqa: E402
    evaluate,
    export_dinov2_model,
    infer,
    preprocess_training_data,
    train,
)
from trainers.gaussian.decoder import DecoderSettings, make_decoder  # noqa: E402
from trainers.gaussian.features import read_polarity  # noqa: E402
from trainers.gaussian.networks import to_input  # noqa: E402
from trainers.gaussian.trained import Sources, Trained, describe  # noqa: E402

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Two photographs and tiny networks with random weights; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("networks")
    make_photographs(folder / "images", 2)
    make_dinov2_folder(folder / "dinov2-small")
    make_depth_folder(folder / "depth-anything")
    return folder


def preprocess(place: Path, output: str, *more: str) -> int:
    data = ("--data_dir", str(place / "images"), "--output_dir", str(place / output))
    return preprocess_training_data.main([*data, *more])


@pytest.fixture(scope="module")
def made(place: Path) -> Path:
    """The folder of files that the transformers networks made."""
    networks = ("--features_model", str(place / "dinov2-small"))
    networks += ("--depth_model", str(place / "depth-anything"))
    assert preprocess(place, "by_transformers", *networks) == 0
    return place / "by_transformers"


def numbers(path: Path) -> np.ndarray:
    return np.fromfile(path, dtype="<f4")


def test_the_files_are_those_of_the_onnx_path(place: Path, made: Path) -> None:
    """The same weights, exported by our own program, through onnxruntime: equal to 1e-3."""
    exported = place / "models" / "dinov2_small.onnx"
    words = ["--size", "small", "--weights", str(place / "dinov2-small"), "--output", str(exported)]
    assert export_dinov2_model.main(words) == 0
    assert preprocess(place, "by_onnx", "--features_model", str(exported), "--no-depth") == 0
    for stem in ("photo_0", "photo_1"):
        ours, theirs = (
            numbers(folder / f"{stem}_dinov2.bin") for folder in (made, place / "by_onnx")
        )
        assert ours.size == 37 * 37 * 384
        assert np.abs(ours - theirs).max() <= 1e-3
        assert ours.std() > 0.1


def test_a_feature_file_is_what_transformers_answers_without_the_class_token(
    place: Path, made: Path
) -> None:
    from transformers import Dinov2Model

    network = Dinov2Model.from_pretrained(place / "dinov2-small", local_files_only=True).eval()
    with Image.open(place / "images" / "photo_0.jpg") as image, torch.no_grad():
        tokens = network(pixel_values=torch.from_numpy(to_input(image))).last_hidden_state
    grid = numbers(made / "photo_0_dinov2.bin").reshape(37, 37, 384)
    assert np.allclose(grid[1, 0], tokens[0, 1 + 37], atol=1e-5), "row by row from the top"


def test_depth_is_scaled_and_its_polarity_stated(place: Path, made: Path) -> None:
    from transformers import DepthAnythingForDepthEstimation as DepthAnything

    depth = numbers(made / "photo_0_depth.bin").reshape(256, 256)
    assert depth.min() >= 0 and depth.max() > 0.9 and depth.std() > 0.01
    network = DepthAnything.from_pretrained(place / "depth-anything", local_files_only=True).eval()
    with Image.open(place / "images" / "photo_0.jpg") as image, torch.no_grad():
        found = network(pixel_values=torch.from_numpy(to_input(image))).predicted_depth[0].numpy()
    coarse = np.asarray(Image.fromarray(found).resize((256, 256), Image.Resampling.BILINEAR))
    assert np.corrcoef(coarse.ravel(), depth.ravel())[0, 1] > 0.999
    told = json.loads((made / "depth_polarity.json").read_text())
    assert told["polarity"] == "disparity"
    assert told["source"].endswith("depth-anything")


def test_a_metric_network_answers_distance(place: Path, capfd) -> None:
    make_depth_folder(place / "metric", depth_estimation_type="metric", max_depth=20)
    networks = ("--features_model", str(place / "dinov2-small"))
    networks += ("--depth_model", str(place / "metric"))
    assert preprocess(place, "metres", *networks) == 0
    assert read_polarity(place / "metres") == "distance"
    assert preprocess(place, "metres", *networks, "--depth_polarity", "disparity") == 2
    assert "answers distance, its config.json says" in capfd.readouterr().err


def test_an_image_is_described_as_it_was_for_training(place: Path, made: Path) -> None:
    trained = Trained(make_decoder(DecoderSettings()), "dinov2", 0.3, 64, "a test")
    networks = Sources(features_model=place / "dinov2-small", depth_model=place / "depth-anything")
    files = Sources(made / "photo_1_dinov2.bin", made / "photo_1_depth.bin")
    image = place / "images" / "photo_1.jpg"
    asked, read = (describe(image, trained, sources) for sources in (networks, files))
    assert torch.allclose(asked["features"], read["features"], atol=1e-5)
    assert torch.allclose(asked["disparity"], read["disparity"], atol=1e-5)
    with pytest.raises(SettingsError, match="leave --features and --features_model away"):
        describe(image, replace(trained, feature_kind="patch"), files)


def test_the_whole_way_from_photographs_to_gaussians(place: Path, tmp_path: Path) -> None:
    """Preprocess, train with depth, judge and infer, all by transformers' folders."""
    make_photographs(tmp_path / "images", 3)
    networks = ["--features_model", str(place / "dinov2-small")]
    networks += ["--depth_model", str(place / "depth-anything")]
    data = ["--data_dir", str(tmp_path / "images")]
    assert preprocess_training_data.main([*data, *networks]) == 0
    words = [*data, "--epochs", "1", "--image_size", "32", "--gaussians_per_patch", "1"]
    words += ["--use_depth_fusion", "--device", "cpu", "--no-export_onnx", "--no-tensorboard"]
    assert train.main([*words, "--output_dir", str(tmp_path / "run")]) == 0
    checkpoint = ["--checkpoint", str(tmp_path / "run" / "checkpoints" / "last.pt")]
    judged = ["--output_dir", str(tmp_path / "judged"), "--device", "cpu"]
    assert evaluate.main([*checkpoint, *data, *judged]) == 0
    means = json.loads((tmp_path / "judged" / "figures.json").read_text())["means"]
    assert all(np.isfinite(value) for value in means.values())
    image = ["--image", str(tmp_path / "images" / "photo_0.jpg"), "--device", "cpu"]
    for name, sources in (("asked", networks), ("read", [])):  # else features/ beside it
        where = ["--output_dir", str(tmp_path / name)]
        assert infer.main([*checkpoint, *image, *sources, *where]) == 0
    asked, read = (numbers(tmp_path / name / "photo_0.bin") for name in ("asked", "read"))
    assert asked.size == 1369 * 14 and np.allclose(asked, read, atol=1e-4)


def test_weights_that_are_missing_are_not_drawn_at_random(place: Path, tmp_path, capfd) -> None:
    from safetensors.torch import load_file, save_file

    make_dinov2_folder(tmp_path / "partial")
    path = tmp_path / "partial" / "model.safetensors"
    weights = load_file(path)
    del weights["layernorm.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    assert preprocess(place, "none", "--features_model", str(path.parent), "--no-depth") == 2
    told = capfd.readouterr().err
    assert "lacks 1 of the network's weights, such as layernorm.weight" in told
    (path.parent / "config.json").unlink()
    assert preprocess(place, "none", "--features_model", str(path.parent), "--no-depth") == 2
    assert f"--features_model: {path.parent} cannot be loaded" in capfd.readouterr().err
    assert not (place / "none").exists()
