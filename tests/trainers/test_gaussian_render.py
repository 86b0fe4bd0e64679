"""The renderer against a slow one that loops, and the geometry a user sees."""

import math

import pytest

torch = pytest.importorskip("torch")

from trainers.gaussian import render as renderer  # noqa: E402
from trainers.gaussian.decoder import rotation_from_6d  # noqa: E402
from trainers.gaussian.render import Gaussians, Rendering, render  # noqa: E402

pytestmark = pytest.mark.trainers


def some_gaussians(images: int, count: int, dtype: torch.dtype, seed: int = 0) -> Gaussians:
    """Random Gaussians, some outside the image, some behind the camera, some seen edge on."""
    chance = torch.Generator().manual_seed(seed)
    numbers = torch.rand(images, count, 17, generator=chance, dtype=torch.float64)
    distance = 4 * numbers[..., 2:3] - 0.3
    sideways = (numbers[..., :2] - 0.5) * 1.5 * distance.abs()
    gaussians = Gaussians(
        torch.cat((sideways, -distance), dim=-1),
        0.005 + 0.3 * numbers[..., 3:6] ** 3,
        rotation_from_6d(numbers[..., 6:12] - 0.5),
        numbers[..., 12:15],
        numbers[..., 15],
    )
    return Gaussians(*(part.to(dtype) for part in gaussians))


def render_slowly(gaussians: Gaussians, image: int, size: int) -> Rendering:
    """Draws one image one Gaussian after the other, from the definitions."""
    positions, scales, rotations, colours, opacities = (part[image] for part in gaussians)
    focal = 0.8 * size
    places = torch.arange(size, dtype=positions.dtype) + 0.5
    v, u = torch.meshgrid(places, places, indexing="ij")
    through = torch.ones(size, size, dtype=positions.dtype)
    drawn = [torch.zeros_like(through) for _ in range(5)]
    for index in torch.argsort(-positions[:, 2], stable=True).tolist():
        x, y, z = positions[index]
        if -z <= 0.01:
            continue
        jacobian = torch.stack(
            (
                torch.stack((focal / -z, z * 0, focal * x / z**2)),
                torch.stack((z * 0, focal / z, -focal * y / z**2)),
            )
        )
        spread = rotations[index] @ torch.diag(scales[index] ** 2) @ rotations[index].T
        covariance = jacobian @ spread @ jacobian.T + (0.3 + 1e-4) * torch.eye(
            2, dtype=positions.dtype
        )
        across = torch.stack(
            (u - (size / 2 + focal * x / -z), v - (size / 2 - focal * y / -z)), dim=-1
        )
        squared = torch.einsum("hwi,ij,hwj->hw", across, torch.linalg.inv(covariance), across)
        alpha = (opacities[index] * torch.exp(-squared / 2)).clamp(0, 0.99) * (squared <= 9)
        for place, value in enumerate((*colours[index], -z, torch.ones_like(z))):
            drawn[place] = drawn[place] + through * alpha * value
        through = through * (1 - alpha)
    return Rendering(torch.stack(drawn[:3]), drawn[3], drawn[4])


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
@pytest.mark.parametrize("tile", [8, 16])
def test_agrees_with_a_loop_over_gaussians(dtype: torch.dtype, close: float, tile: int) -> None:
    gaussians = some_gaussians(2, 60, torch.float64)
    fast = render(Gaussians(*(part.to(dtype) for part in gaussians)), 27, tile)
    for image in range(2):
        slow = render_slowly(gaussians, image, 27)
        for found, expected in zip(fast, slow, strict=True):
            assert (found[image] - expected).abs().max() < close


@pytest.mark.parametrize("pairs", [1 << 23, 2000])
def test_gradients_agree_whether_or_not_it_works_in_chunks(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "PAIRS_PER_CHUNK", pairs)
    fast = Gaussians(
        *(part.requires_grad_() for part in some_gaussians(1, 25, torch.float64, seed=3))
    )
    slow = Gaussians(
        *(part.requires_grad_() for part in some_gaussians(1, 25, torch.float64, seed=3))
    )
    weight = torch.linspace(0, 1, 20 * 20, dtype=torch.float64).view(20, 20)
    (render(fast, 20).image * weight).sum().backward()
    (render_slowly(slow, 0, 20).image * weight).sum().backward()
    for found, expected in zip(fast, slow, strict=True):
        assert torch.allclose(found.grad, expected.grad, atol=1e-9)


def one_gaussian(x: float, y: float, z: float, colour: tuple[float, float, float]) -> Gaussians:
    return Gaussians(
        torch.tensor([[[x, y, z]]]),
        torch.full((1, 1, 3), 0.1),
        torch.eye(3).view(1, 1, 3, 3),
        torch.tensor([[colour]]),
        torch.full((1, 1), 0.95),
    )


def together(*gaussians: Gaussians) -> Gaussians:
    return Gaussians(*(torch.cat(parts, dim=1) for parts in zip(*gaussians, strict=True)))


def test_what_is_up_is_drawn_at_the_top_and_what_is_right_at_the_right() -> None:
    image = render(one_gaussian(0.7, 0.9, -2.0, (1, 1, 1)), 32).image[0, 0]
    assert image[:16, 16:].sum() > 0.99 * image.sum() > 1


@pytest.mark.parametrize("near_first", [True, False])
def test_what_is_nearer_hides_what_is_farther(near_first: bool) -> None:
    near, far = one_gaussian(0, 0, -1.5, (1, 0, 0)), one_gaussian(0, 0, -3.0, (0, 0, 1))
    red, _, blue = render(together(near, far) if near_first else together(far, near), 33).image[
        0, :, 16, 16
    ]
    assert red > 0.9
    assert blue < 0.1


def test_nothing_behind_the_camera_is_drawn() -> None:
    assert render(one_gaussian(0, 0, 1.0, (1, 1, 1)), 16).image.max() == 0


def test_a_gaussian_smaller_than_a_pixel_is_seen_wherever_it_lies() -> None:
    seen = []
    for offset in (0.0, 0.25, 0.5, 0.75):
        tiny = one_gaussian(offset * 2 / (0.8 * 32), 0, -2.0, (1, 1, 1))
        seen.append(
            render(tiny._replace(scales=torch.full((1, 1, 3), 1e-5)), 32).image[0, 0].sum().item()
        )
    assert min(seen) > 0.8 * max(seen) > 0
    assert math.isfinite(max(seen))
