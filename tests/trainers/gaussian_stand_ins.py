"""Makes ten photographs and small ONNX networks with the shapes of DINOv2 and Depth Anything.

python tests/trainers/gaussian_stand_ins.py FOLDER   writes FOLDER/images/training and FOLDER/models
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png")
SIZES = {"small": 384, "base": 768}


def make_photographs(folder: Path, count: int = 10) -> None:
    """Crops of photographs that scikit-image ships."""
    folder.mkdir(parents=True, exist_ok=True)
    shipped = Path(importlib.util.find_spec("skimage").origin).parent / "data"
    for number in range(count):
        with Image.open(shipped / PHOTOGRAPHS[number % len(PHOTOGRAPHS)]) as image:
            width, height = image.size
            side = min(width, height) // 2
            left = number // len(PHOTOGRAPHS) * (width - side)
            image.convert("RGB").crop((left, 0, left + side, side)).save(
                folder / f"photo_{number}.jpg"
            )


def save(path: Path, nodes: list, weights: dict, output: tuple) -> None:
    """Write a network of one picture of 518 pixels."""
    picture = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, [1, 3, 518, 518])
    answer = helper.make_tensor_value_info(output[0], TensorProto.FLOAT, list(output[1]))
    known = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "stand-in", [picture], [answer], known)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


def make_features(path: Path, channels: int, class_token: bool = True) -> None:
    """A random projection of every patch of 14 pixels, with a class token before them as DINOv2 has
    one.
    """
    chance = np.random.default_rng(channels)
    weights = {
        "kernel": (0.08 * chance.standard_normal((channels, 3, 14, 14))).astype(np.float32),
        "shape": np.array([1, channels, 1369], dtype=np.int64),
        "class": np.full((1, 1, channels), 99, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["pixel_values", "kernel"], ["grid"], strides=[14, 14]),
        helper.make_node("Reshape", ["grid", "shape"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["patches"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["class", "patches"], ["tokens"], axis=1),
    ]
    tokens = 1370 if class_token else 1369
    save(
        path,
        nodes if class_token else nodes[:3],
        weights,
        ("tokens" if class_token else "patches", (1, tokens, channels)),
    )


def make_depth(path: Path) -> None:
    """Brightness, smoothed: something a picture decides."""
    nodes = [
        helper.make_node("Conv", ["pixel_values", "mean"], ["grey"]),
        helper.make_node(
            "AveragePool",
            ["grey"],
            ["smooth"],
            kernel_shape=[15, 15],
            pads=[7, 7, 7, 7],
            strides=[1, 1],
        ),
        helper.make_node("Squeeze", ["smooth", "one"], ["predicted_depth"]),
    ]
    weights = {
        "mean": np.full((1, 3, 1, 1), 1 / 3, dtype=np.float32),
        "one": np.array([1], dtype=np.int64),
    }
    save(path, nodes, weights, ("predicted_depth", (1, 518, 518)))


def make_dinov2_folder(folder: Path, channels: int = 384) -> None:
    """A DINOv2 of one layer with random weights, as transformers saves it."""
    import torch
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=channels,
        num_hidden_layers=1,
        num_attention_heads=channels // 64,
        mlp_ratio=1,
        image_size=518,
        patch_size=14,
    )
    Dinov2Model(config).save_pretrained(folder)


def make_depth_folder(folder: Path, **more: object) -> None:
    """A very narrow Depth Anything with random weights, as transformers saves it."""
    import torch
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    torch.manual_seed(0)
    backbone = Dinov2Config(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        mlp_ratio=1,
        image_size=518,
        patch_size=14,
        out_indices=[1, 2, 3, 4],
        reshape_hidden_states=False,
    )
    config = DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=32,
        neck_hidden_sizes=[4, 4, 4, 4],
        fusion_hidden_size=4,
        head_hidden_size=4,
        **more,
    )
    network = DepthAnythingForDepthEstimation(config)
    # As transformers draws them, so few channels let nothing through.
    for name, part in network.named_parameters():
        if part.dim() > 1 and not name.startswith("backbone"):
            torch.nn.init.kaiming_normal_(part)
    torch.nn.init.ones_(network.head.conv3.weight)
    torch.nn.init.ones_(network.head.conv3.bias)
    network.save_pretrained(folder)


def main(folder: Path) -> None:
    """Make everything."""
    make_photographs(folder / "images" / "training")
    for size, channels in SIZES.items():
        make_features(folder / "models" / f"dinov2_{size}.onnx", channels)
    make_depth(folder / "models" / "depth_anything_v2_small.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
