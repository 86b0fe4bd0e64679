"""Checkpoints of the published decoders compute here, number by number, what they compute there."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.trainers import published_decoders as published  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.gaussian.decoder import (  # noqa: E402
    MEANING,
    DecoderSettings,
    make_decoder,
    refuse_older_meaning,
)
from trainers.gaussian.geometry import SIGMOID  # noqa: E402
from trainers.gaussian.trained import load_trained  # noqa: E402

pytestmark = pytest.mark.trainers
NAMES = ("positions", "scales", "rotations", "colours", "opacities")
CASES = {
    "k1": lambda: published.Patches(384, 1, False, False),
    "k4": lambda: published.Patches(384, 4, False, False),
    "k8": lambda: published.Patches(384, 8, False, False),
    "base": lambda: published.Patches(768, 4, False, False),
    "large": lambda: published.Patches(1024, 2, False, False),
    "fusion": lambda: published.Patches(384, 4, True, False),
    "pose": lambda: published.Patches(384, 4, False, True),
    "fusion and pose": lambda: published.Patches(384, 2, True, True),
    "fibonacci": lambda: published.Fibonacci(384),
    "fibonacci base": lambda: published.Fibonacci(768),
    "automaton": lambda: published.Automaton(384),
    "automaton large": lambda: published.Automaton(1024),
}


def channels_of(model: torch.nn.Module) -> int:
    first = model.init_state_net[0] if hasattr(model, "init_state_net") else model.mlp.net[0]
    return first.in_features - 64 * hasattr(model, "depth_encoder")


@pytest.mark.parametrize("name", CASES)
def test_a_published_checkpoint_computes_the_same_numbers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = CASES[name]().eval()
    path = tmp_path / "decoder.pt"
    torch.save({"epoch": 1, "model_state_dict": model.state_dict()}, path)
    decoder = load_trained(path).decoder
    features = torch.randn(2, channels_of(model), 37, 37)
    disparities = [torch.rand(2, 1, side, side) for side in (20, 64, 518)]
    without = [] if hasattr(model, "depth_encoder") else [None]
    for disparity in (*without, *(disparities[:2] if not without else disparities)):
        asked = {}
        if hasattr(model, "pose_encoder"):
            asked["pose"] = torch.tensor([[0.3, 1.0], [-0.2, 2.5]])
        with torch.no_grad():
            expected = model(features, disparity, **asked)
            found = decoder(features, disparity, **asked)
        for part, there, here in zip(NAMES, expected, found, strict=True):
            assert (there - here).abs().max() <= 1e-5, part


@pytest.mark.parametrize(
    "settings",
    [DecoderSettings(pose_encoding=True), DecoderSettings(experiment=5, geometry="upstream")],
)
def test_weights_that_meant_something_else_are_refused(settings: DecoderSettings) -> None:
    weights = {"model": make_decoder(settings).state_dict()}
    with pytest.raises(SettingsError, match="earlier version"):
        refuse_older_meaning(weights, settings, Path("old.pt"))
    now = {"meaning": MEANING, "geometry": settings.geometry}
    refuse_older_meaning(weights | now, settings, Path("new.pt"))
    refuse_older_meaning(weights, DecoderSettings(geometry=SIGMOID), Path("old.pt"))
