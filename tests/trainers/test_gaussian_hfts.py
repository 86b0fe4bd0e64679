"""The fast schedule: its phases, and that its random Gaussians leave the mean picture as it is."""

import math

import pytest

torch = pytest.importorskip("torch")

from trainers.gaussian.decoder import DecoderSettings, DirectPatchDecoder  # noqa: E402
from trainers.gaussian.hfts import (  # noqa: E402
    Savings,
    keep_chances,
    phase_of,
    random_window,
    sample_gaussians,
    speed_estimate,
)
from trainers.gaussian.render import Camera, Gaussians, render  # noqa: E402

pytestmark = pytest.mark.trainers
ALL = Savings(64, True, 256, 12, 0.25)


def test_the_last_phase_has_everything_at_full_size() -> None:
    phases = [phase_of(epoch, 100, 256, 4, ALL) for epoch in range(100)]
    assert {phase.resolution for phase in phases[:75]} == {64}
    assert [phase.slots for phase in phases].count(1) > 10
    assert sorted({phase.slots for phase in phases}) == [1, 2, 4]
    for phase in phases[75:]:
        assert (phase.resolution, phase.slots, phase.stochastic_k, phase.window) == (256, 4, 0, 0)
    assert phase_of(0, 1, 256, 4, ALL).final
    assert phase_of(0, 100, 256, 4, Savings()).final
    assert speed_estimate(256, 4, ALL, 100) > speed_estimate(256, 4, Savings(), 100) == 1


def overlapping(count: int = 40) -> Gaussians:
    chance = torch.Generator().manual_seed(3)
    numbers = torch.rand(1, count, 8, generator=chance, dtype=torch.float64)
    positions = torch.cat((1.6 * (numbers[..., :2] - 0.5), -2 - numbers[..., 2:3]), dim=-1)
    return Gaussians(
        positions,
        0.1 + 0.2 * numbers[..., 3:4].expand(-1, -1, 3),
        torch.eye(3, dtype=torch.float64).expand(1, count, 3, 3),
        numbers[..., 4:7],
        0.05 + 0.6 * numbers[..., 7],
    )


def test_the_mean_of_2000_random_pictures_is_the_full_picture() -> None:
    """Within 3 standard errors: in the mean over the picture, and in 99 % of its numbers one by
    one.
    """
    gaussians, draws, camera = overlapping(), 2000, Camera(12, 0.3)
    full = render(gaussians, camera).image[0]
    chance = torch.Generator().manual_seed(0)
    pictures = []
    for _ in range(draws // 250):
        many = Gaussians(*(part.expand(250, *part.shape[1:]) for part in gaussians))
        pictures.append(render(sample_gaussians(many, 8, chance), camera).image)
    pictures = torch.cat(pictures)
    error = pictures.std(0) / math.sqrt(draws)
    apart = (pictures.mean(0) - full).abs()
    assert (apart <= 3 * error + 1e-12).double().mean() >= 0.99
    means = pictures.mean((1, 2, 3))
    assert abs(means.mean() - full.mean()) <= 3 * means.std() / math.sqrt(draws)
    assert error.max() > 1e-4


def test_without_compensation_the_mean_picture_would_be_darker() -> None:
    gaussians, chance = overlapping(), torch.Generator().manual_seed(0)
    many = Gaussians(*(part.expand(500, *part.shape[1:]) for part in gaussians))
    drawn = sample_gaussians(many, 8, chance)
    bare = drawn._replace(opacities=torch.where(drawn.opacities > 0, many.opacities, 0.0))
    full, mean = (render(one, Camera(12, 0.3)).coverage.mean() for one in (gaussians, bare))
    assert mean < 0.8 * full


def test_no_drawn_gaussian_is_stronger_than_the_cap_and_as_many_are_drawn_as_said() -> None:
    many = Gaussians(*(part.expand(400, *part.shape[1:]) for part in overlapping()))
    drawn = sample_gaussians(many, 8, torch.Generator().manual_seed(1)).opacities
    assert drawn.max() <= 0.99 + 1e-9
    expected = keep_chances(many.opacities, 8).sum(1).mean()
    assert (drawn > 0).double().sum(1).mean() == pytest.approx(expected.item(), rel=0.05)
    assert torch.equal(sample_gaussians(many, 40).opacities, many.opacities)


@pytest.mark.parametrize("size", [64, 128])
def test_a_window_shows_what_the_whole_picture_shows_there(size: int) -> None:
    """With the margin's patches no Gaussian of a usual size is missing."""
    torch.manual_seed(0)
    decoder = DirectPatchDecoder(DecoderSettings()).eval()
    features = torch.randn(1, 384, 37, 37)
    chance, corners = torch.Generator().manual_seed(2), set()
    with torch.no_grad():
        full = render(decoder(features), Camera(size, 0.3)).image
        for _ in range(12):
            window, camera = random_window(12, size, chance)
            left, top, width = camera.window
            part = render(decoder(features, window=window), camera._replace(blur=0.3)).image
            assert part.shape[-1] == width == 12 * size // 37
            assert torch.allclose(
                part, full[..., top : top + width, left : left + width], atol=2e-3
            )
            corners.add((left, top))
    assert {0, size - width} & {left for left, _ in corners}
