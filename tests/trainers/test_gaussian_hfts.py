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
    split_gaussians,
    work_saved,
)
from trainers.gaussian.options import complete, make_parser  # noqa: E402
from trainers.gaussian.projection import Camera, Gaussians  # noqa: E402
from trainers.gaussian.render import Drawer, render  # noqa: E402

pytestmark = pytest.mark.trainers
ALL = Savings(64, True, 256, 12, 0.25)


def test_the_last_phase_has_everything_at_full_size() -> None:
    phases = [phase_of(epoch, 100, 256, 4, ALL) for epoch in range(100)]
    assert {phase.window for phase in phases[:75]} == {12}
    assert {phase.resolution for phase in phases[:38]} == {64}
    assert {phase.resolution for phase in phases[38:]} == {256}
    slots = [phase.slots for phase in phases]
    assert slots == sorted(slots) and slots.count(1) > 10
    assert set(slots[:38]) == {1, 2, 4} and set(slots[38:]) == {4}
    for phase in phases[75:]:
        assert (phase.resolution, phase.slots, phase.stochastic_k, phase.window) == (256, 4, 0, 0)
    assert phase_of(0, 1, 256, 4, ALL).final
    assert phase_of(0, 100, 256, 4, Savings()).final


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", (0, 0, 1)),
        ("--fast_mode", (8, 128, 5)),
        ("--fast_mode --image_size 32", (13, 128, 5)),
        ("--fast_mode --train_window 0 --validate_every 1", (0, 128, 1)),
        ("--train_window 20 --train_resolution 96", (20, 96, 1)),
    ],
)
def test_fast_mode_fills_in_what_is_not_given(words: str, expected: tuple[int, int, int]) -> None:
    settings = make_parser().parse_args(["--image_size", "256", *words.split()])
    complete(settings)
    found = (settings.train_window, settings.train_resolution, settings.validate_every)
    assert found == expected


def test_the_work_saved_is_told() -> None:
    assert work_saved(256, 4, Savings(), 100) == (1, 1)
    saved = work_saved(128, 4, Savings(window=8, final_share=0.02), 100)
    assert saved.patches == pytest.approx(1 / (0.02 + 0.98 * (10 / 37) ** 2))
    assert saved.pixels == pytest.approx(1 / (0.02 + 0.98 * (8 / 37) ** 2))
    coarse = work_saved(256, 4, Savings(train_resolution=64, window=8), 100)
    assert coarse.pixels > 1.3 * work_saved(256, 4, Savings(window=8), 100).pixels


def test_split_gaussians_draw_what_their_parents_drew(draw: Drawer) -> None:
    """Unlike new ones that have learnt nothing; two optimisers' states stay of one piece."""
    torch.manual_seed(0)
    decoder = DirectPatchDecoder(DecoderSettings(gaussians_per_patch=4))
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
    features, camera = torch.randn(1, 384, 37, 37), Camera(32, 0.3)
    target = torch.rand(1, 3, 4, 4).repeat_interleave(8, 2).repeat_interleave(8, 3)
    for _ in range(8):
        optimiser.zero_grad()
        (render(decoder(features, slots=1), camera, draw).image - target).abs().mean().backward()
        optimiser.step()
    decoder.eval()
    with torch.no_grad():
        parents, untaught = (
            render(decoder(features, slots=slots), camera, draw).image for slots in (1, 4)
        )
        split_gaussians(decoder.mlp.net[-1], optimiser, 1, 4)
        halves = decoder(features)
        drawn = render(halves, camera, draw).image
    change, worse = ((one - parents).square().mean() for one in (drawn, untaught))
    assert change < 0.5 * worse
    colours = halves.colours.view(1, 37 * 37, 4, 3)
    assert torch.equal(colours[:, :, :1].expand_as(colours), colours)
    places = halves.positions.view(1, 37 * 37, 4, 3)
    assert len({tuple(place) for place in places[0, 700, :, :2].tolist()}) == 4
    moments = optimiser.state[decoder.mlp.net[-1].bias]["exp_avg"].view(4, 16)
    assert moments[0].any() and torch.equal(moments, moments[:1].expand(4, 16))


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


def test_the_mean_of_2000_random_pictures_is_the_full_picture(draw: Drawer) -> None:
    """Within 3 standard errors: in the mean over the picture, and in 99 % of its numbers one by
    one.
    """
    gaussians, draws, camera = overlapping(), 2000, Camera(12, 0.3)
    full = render(gaussians, camera, draw).image[0]
    chance = torch.Generator().manual_seed(0)
    pictures = []
    for _ in range(draws // 250):
        many = Gaussians(*(part.expand(250, *part.shape[1:]) for part in gaussians))
        pictures.append(render(sample_gaussians(many, 8, chance), camera, draw).image)
    pictures = torch.cat(pictures)
    error = pictures.std(0) / math.sqrt(draws)
    apart = (pictures.mean(0) - full).abs()
    assert (apart <= 3 * error + 1e-12).double().mean() >= 0.99
    means = pictures.mean((1, 2, 3))
    assert abs(means.mean() - full.mean()) <= 3 * means.std() / math.sqrt(draws)
    assert error.max() > 1e-4


def test_without_compensation_the_mean_picture_would_be_darker(draw: Drawer) -> None:
    gaussians, chance = overlapping(), torch.Generator().manual_seed(0)
    many = Gaussians(*(part.expand(500, *part.shape[1:]) for part in gaussians))
    drawn = sample_gaussians(many, 8, chance)
    bare = drawn._replace(opacities=torch.where(drawn.opacities > 0, many.opacities, 0.0))
    full, mean = (render(one, Camera(12, 0.3), draw).coverage.mean() for one in (gaussians, bare))
    assert mean < 0.8 * full


def test_no_drawn_gaussian_is_stronger_than_the_cap_and_as_many_are_drawn_as_said() -> None:
    many = Gaussians(*(part.expand(400, *part.shape[1:]) for part in overlapping()))
    drawn = sample_gaussians(many, 8, torch.Generator().manual_seed(1)).opacities
    assert drawn.max() <= 0.99 + 1e-9
    expected = keep_chances(many.opacities, 8).sum(1).mean()
    assert (drawn > 0).double().sum(1).mean() == pytest.approx(expected.item(), rel=0.05)
    assert torch.equal(sample_gaussians(many, 40).opacities, many.opacities)


@pytest.mark.parametrize("size", [64, 128])
def test_a_window_shows_what_the_whole_picture_shows_there(size: int, draw: Drawer) -> None:
    """With the margin's patches no Gaussian of a usual size is missing."""
    torch.manual_seed(0)
    decoder = DirectPatchDecoder(DecoderSettings()).eval()
    features = torch.randn(1, 384, 37, 37)
    chance, corners = torch.Generator().manual_seed(2), set()
    with torch.no_grad():
        full = render(decoder(features), Camera(size, 0.3), draw).image
        for _ in range(12):
            window, camera = random_window(12, size, chance)
            left, top, width = camera.window
            part = render(decoder(features, window=window), camera._replace(blur=0.3), draw).image
            assert part.shape[-1] == width == 12 * size // 37
            assert torch.allclose(
                part, full[..., top : top + width, left : left + width], atol=2e-3
            )
            corners.add((left, top))
    assert {0, size - width} & {left for left, _ in corners}
