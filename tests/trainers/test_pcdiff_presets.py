"""The guides' tables of GPUs, batch and learning rate against what `plan` says of the presets."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("nrrd")

from tests.warm import COMMANDS  # noqa: E402
from trainers.common.weights import read_weights  # noqa: E402
from trainers.pcdiff.completing import load_network  # noqa: E402
from trainers.pcdiff.data import Recipe, SkullPoints, find_samples  # noqa: E402
from trainers.pcdiff.diffusion import noise_settings  # noqa: E402
from trainers.pcdiff.judging import compare_implants, draw_implants  # noqa: E402
from trainers.pcdiff.options import make_parser  # noqa: E402
from trainers.pcdiff.run import sizes_of  # noqa: E402
from trainers.pcdiff.samplers import Sampling  # noqa: E402
from trainers.skulls.made_up import make_up  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.trainers

TINY = ROOT / "trainers" / "pcdiff" / "tiny"
# What is asked for -> processes, batch, learning rate: the guides' modes, and the table by GPUs.
PLANS = {
    "pcdiff": (7, 56, 1.4e-3),
    "pcdiff-1gpu": (1, 8, 2e-4),
    "pcdiff-8gpu": (8, 64, 1.6e-3),
    "pcdiff-8gpu-sqrt": (8, 64, 5.66e-4),
    "pcdiff-8gpu-small": (8, 32, 8e-4),
    "pcdiff --set bs=392 --set lr=1.22e-3": (7, 392, 1.22e-3),
    "pcdiff-8gpu --gpus 2 --scale linear": (2, 16, 4e-4),
    "pcdiff-8gpu --gpus 2 --scale sqrt": (2, 16, 2.83e-4),
    "pcdiff-8gpu --gpus 4 --scale linear": (4, 32, 8e-4),
    "pcdiff-8gpu --gpus 4 --scale sqrt": (4, 32, 4e-4),
}


@pytest.mark.parametrize("words", PLANS)
def test_plans_are_those_of_the_guides(words: str, tmp_path: Path) -> None:
    processes, batch, rate = PLANS[words]
    environment = {**os.environ, "FRESNEL_GPUS": "sim:8xA100-80GB", "XDG_STATE_HOME": str(tmp_path)}
    ended = COMMANDS.run(
        [sys.executable, "-m", "fresnel_tui", "--no-ui", "plan", *words.split(), "--json",
         "--no-verify"],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    command = " ".join(json.loads(ended.stdout)["argv"])
    assert int(re.search(r"--bs (\d+)", command)[1]) == batch  # type: ignore[index]
    found = re.search(r"--lr (\S+)", command)
    assert found and float(found[1]) == pytest.approx(rate, rel=1e-3)
    started = re.search(r"--nproc-per-node=(\d+)", command)
    assert (int(started[1]) if started else 1) == processes
    assert "--lr-scaling none" in command


def test_the_tiny_preset_begins_with_weights_made_by_the_recipe_beside_them() -> None:
    values = tiny_values()
    shipped = TINY / "pcdiff.safetensors"
    assert values["model"] == "${trainers}/pcdiff/tiny/pcdiff.safetensors"
    assert shipped.stat().st_size <= 2_000_000
    assert "`pcdiff.safetensors`" in shipped.with_suffix(".md").read_text()
    recipe = make_parser("", "").read(["--config", str(TINY / "recipe.yaml")])
    network, diffusion, _ = load_network(shipped, {}, "auto", torch.device("cpu"))
    assert network.sizes == sizes_of(recipe)
    assert read_weights(shipped)[1] == {
        "sizes": network.sizes.as_dict(), "diffusion": noise_settings(recipe),
        "epoch": recipe.niter,
    }  # fmt: skip
    assert diffusion.says == values["model_mean_type"]
    for name in ("num_points", "num_nn", "width_mult", "vox_res_mult", "up_convolutions",
                 "embed_dim", "made_up_size"):  # fmt: skip
        assert values[name] == getattr(recipe, name), name
    # Else the skulls it is judged on were among those trained on.
    assert recipe.made_up_seed != make_parser("", "").read(["--made_up", "2"]).made_up_seed
    assert "made_up_seed" not in values


def test_the_shipped_weights_draw_implants_at_the_hole(tmp_path: Path) -> None:
    """On a skull that neither the recipe nor the preset makes up, in few steps."""
    make_up(tmp_path, 2, 32, points=4096, held_out=1, seed=3)
    recipe = Recipe(1024, 102, 1000, augment=False, seed=0)
    data = SkullPoints(find_samples(tmp_path / "test.csv", False), recipe, fixed=True)
    device = torch.device("cpu")
    network, diffusion, _ = load_network(TINY / "pcdiff.safetensors", {}, "auto", device)
    drawn = draw_implants(network, diffusion, data, Sampling("ddim", 12), device, seed=0)
    assert len(drawn) == 5
    found = compare_implants(drawn)
    assert found["chamfer"] < 0.1 < found["chamfer_mirror"]
    for sample in drawn:
        side = [float(sample[name][:, 0].mean()) for name in ("drawn", "implant")]
        assert side[0] * side[1] > 0 or min(map(abs, side)) < 0.5, sample["name"]


def tiny_values() -> dict[str, Any]:
    preset = yaml.safe_load((ROOT / "presets" / "pcdiff-tiny.yaml").read_text())
    return {name: item["value"] for name, item in preset["parameters"].items()}
