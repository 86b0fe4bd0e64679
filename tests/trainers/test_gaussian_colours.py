"""Colours: what a decoder that saw few of them makes of others, and how they are kept in range."""

import colorsys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from trainers.common.errors import SettingsError  # noqa: E402
from trainers.gaussian.decoder import (  # noqa: E402
    DecoderSettings,
    GaussianDecoder,
    geometry_of,
    make_decoder,
    refuse_older_meaning,
)
from trainers.gaussian.features import describe_patches  # noqa: E402
from trainers.gaussian.geometry import SIGMOID, to_colours  # noqa: E402
from trainers.gaussian.hfts import random_window  # noqa: E402
from trainers.gaussian.losses import LossSettings, total_loss  # noqa: E402
from trainers.gaussian.projection import Camera  # noqa: E402
from trainers.gaussian.render import Drawer, render  # noqa: E402
from trainers.gaussian.views import cut  # noqa: E402

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(120)]
SIZE, STEPS = 64, 60
FAINT, STRONG = (0.0, 0.35), (0.85, 1.0)
"""Ranges of saturation: to learn from, and to be asked for. All hues are in both."""


def fields(saturations: tuple[float, float], seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Pictures of 4 x 4 flat fields as (N,3,S,S), and their descriptors."""
    chance = torch.Generator().manual_seed(seed)
    pictures = []
    for _ in range(count):
        low, high = saturations
        hue, strength, value = torch.rand(3, 16, generator=chance)
        parts = (hue, low + (high - low) * strength, 0.3 + 0.7 * value)
        colours = [colorsys.hsv_to_rgb(*map(float, colour)) for colour in zip(*parts, strict=True)]
        pictures.append(torch.tensor(colours).t().reshape(3, 4, 4))
    wide = F.interpolate(torch.stack(pictures), size=148, mode="nearest")
    images = F.interpolate(wide, size=SIZE, mode="area")
    return images, torch.stack([describe_patches(picture) for picture in wide])


def learn(decoder: GaussianDecoder, draw: Drawer) -> None:
    """Sixty steps on windows of faint fields."""
    images, features = fields(FAINT, 0, 12)
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
    for _ in range(STEPS):
        window, camera = random_window(10, SIZE)
        chosen = torch.randint(len(images), (4,))
        drawn = render(decoder(features[chosen], window=window), camera, draw)
        loss, _ = total_loss(drawn, cut(images[chosen], camera.window), None, LossSettings())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimiser.step()


@torch.no_grad()
def colour_gain(decoder: GaussianDecoder, draw: Drawer) -> float:
    """How strong colours are drawn along themselves: 1 as they are, 0 as grey or others."""
    images, features = fields(STRONG, 1, 3)
    drawn = render(decoder.eval()(features), Camera(SIZE), draw).image
    wanted, found = (F.avg_pool2d(part, 4) for part in (images, drawn))
    wanted, found = (part - part.mean(1, keepdim=True) for part in (wanted, found))
    return float((wanted * found).sum() / wanted.square().sum())


def test_strong_colours_that_were_never_shown_are_drawn_as_they_are(draw: Drawer) -> None:
    """As it was (a sigmoid, random layers, dropout) they come out at half their strength."""
    torch.manual_seed(0)
    decoder = make_decoder(DecoderSettings(gaussians_per_patch=1))
    learn(decoder, draw)
    assert 0.7 < colour_gain(decoder, draw) < 1.3


@pytest.mark.parametrize("experiment", [2, 4, 5])
def test_an_untrained_decoder_is_linear_in_its_features(experiment: int) -> None:
    torch.manual_seed(0)
    decoder = make_decoder(DecoderSettings(experiment=experiment, gaussians_per_patch=2))
    network = decoder.init_state_net if experiment == 5 else decoder.mlp
    one, other = torch.randn(2, 5, 384)
    with torch.no_grad():
        middle = network(torch.zeros(5, 384))
        both, apart = network(one + other) - middle, network(one) + network(other) - 2 * middle
    assert both.std() > 0.01
    assert torch.allclose(both, apart, atol=1e-4)


def test_a_colour_beyond_its_range_is_clamped_and_finds_back() -> None:
    raw = torch.tensor([[-1.0, 0.0, 2.0]], requires_grad=True)
    colours = to_colours(raw, "patch")
    assert colours.tolist() == [[0.0, 0.5, 1.0]]
    (inwards,) = torch.autograd.grad((colours * torch.tensor([-1.0, 1.0, 1.0])).sum(), raw)
    assert inwards.tolist() == [[-1.0, 1.0, 1.0]], "a step against it leads back"
    colours = to_colours(raw, "patch")
    (outwards,) = torch.autograd.grad((colours * torch.tensor([1.0, 1.0, -1.0])).sum(), raw)
    assert outwards.tolist() == [[0.0, 1.0, 0.0]]


def test_a_checkpoint_of_sigmoid_colours_keeps_them() -> None:
    before, now = {"geometry": "patch", "meaning": 2}, {"geometry": "patch", "meaning": 3}
    assert (geometry_of(before), geometry_of(now)) == (SIGMOID, "patch")
    assert geometry_of({"geometry": "upstream"}) == "upstream"
    raw = torch.tensor([[-1.0, 0.0, 2.0]])
    assert torch.equal(to_colours(raw, SIGMOID), (3 * raw).sigmoid())
    refuse_older_meaning(before, DecoderSettings(geometry=SIGMOID), Path("old.pt"))
    with pytest.raises(SettingsError, match="go on with --geometry patch-sigmoid"):
        refuse_older_meaning(before, DecoderSettings(), Path("old.pt"))
