"""The renderer against its definition, closed forms and finite differences, on every backend of a
CPU.
"""

import math
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from tests.support import REPOSITORY  # noqa: E402
from trainers.gaussian import tiles  # noqa: E402
from trainers.gaussian.geometry import (  # noqa: E402
    Layout,
    rotation_from_6d,
    seen_from,
    to_gaussians,
)
from trainers.gaussian.projection import Camera, Gaussians  # noqa: E402
from trainers.gaussian.render import Drawer, Rendering, choose_drawer, render  # noqa: E402
from trainers.gaussian.tiles import chunk_bounds, draw_in_tiles  # noqa: E402

pytestmark = pytest.mark.trainers
BACKENDS = ["torch"]
if find_spec("numba") is not None:
    BACKENDS.append("compiled")


@pytest.fixture(params=BACKENDS)
def draw(request: pytest.FixtureRequest) -> Drawer:
    """Every backend that a CPU has here."""
    return choose_drawer(request.param, torch.device("cpu"))


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


def learning(gaussians: Gaussians) -> Gaussians:
    return Gaussians(*(part.clone().requires_grad_() for part in gaussians))


def render_densely(gaussians: Gaussians, image: int, camera: Camera) -> Rendering:
    """Draws one image one Gaussian after the other, every pixel, from the definitions."""
    positions, scales, rotations, colours, opacities = (part[image] for part in gaussians)
    size, focal = camera.size, camera.focal * camera.size
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
        covariance = jacobian @ spread @ jacobian.T + camera.blur * torch.eye(
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


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_agrees_with_the_dense_reference_and_a_batch_with_its_images(
    dtype, close: float, draw: Drawer
) -> None:
    gaussians, camera = some_gaussians(3, 60, torch.float64), Camera(27, 0.3)
    fast = render(Gaussians(*(part.to(dtype) for part in gaussians)), camera, draw)
    for image in range(3):
        slow = render_densely(gaussians, image, camera)
        alone = render(
            Gaussians(*(part[image : image + 1].to(dtype) for part in gaussians)), camera, draw
        )
        for found, expected, single in zip(fast, slow, alone, strict=True):
            scale = max(1.0, float(expected.abs().max()))
            assert (found[image] - expected).abs().max() < close * scale
            assert torch.allclose(found[image], single[0], atol=1e-6)


def test_gradients_agree_with_the_dense_reference(draw: Drawer) -> None:
    fast, slow = (learning(some_gaussians(1, 25, torch.float64, seed=3)) for _ in range(2))
    weight = torch.linspace(0, 1, 3 * 20 * 20, dtype=torch.float64).view(3, 20, 20)
    for drawn in (render(fast, Camera(20, 0.3), draw), render_densely(slow, 0, Camera(20, 0.3))):
        ((drawn.image * weight).sum() + drawn.distance.sum() + (drawn.coverage**2).sum()).backward()
    for found, expected in zip(fast, slow, strict=True):
        assert torch.allclose(found.grad, expected.grad, atol=1e-7, rtol=1e-6)


def test_gradients_agree_with_finite_differences(draw: Drawer) -> None:
    """Eight Gaussians that cover the picture, so that none is near its end, the cap or the near
    plane.
    """
    chance = torch.Generator().manual_seed(4)
    numbers = torch.rand(1, 8, 17, generator=chance, dtype=torch.float64)
    start = (
        torch.cat((numbers[..., :2] - 0.5, -2 - numbers[..., 2:3]), dim=-1),
        1.5 + 0.5 * numbers[..., 3:6],
        numbers[..., 6:12] - 0.5,
        numbers[..., 12:15],
        0.2 + 0.5 * numbers[..., 15],
    )

    def picture(positions, scales, raw, colours, opacities):
        gaussians = Gaussians(positions, scales, rotation_from_6d(raw), colours, opacities)
        return torch.cat([part.flatten() for part in render(gaussians, Camera(6, 0.3), draw)])

    asked = [part.requires_grad_() for part in start]
    assert torch.autograd.gradcheck(picture, asked, atol=1e-6, rtol=1e-4, fast_mode=True)


def test_what_is_judged_does_not_depend_on_what_was_drawn_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a GPU, where asking how full the tiles are makes the host wait: small Gaussians first,
    then large ones, of which the tiles hold many more.
    """
    memory = tiles.FillMemory(dear=lambda counts: True)
    monkeypatch.setattr(tiles, "MEMORY", memory)
    large, camera = some_gaussians(2, 400, torch.float32), Camera(64, 0.3)
    small = large._replace(scales=large.scales * 0.2)
    with torch.no_grad():
        expected = draw_in_tiles(large, camera)
        for _ in range(2):
            draw_in_tiles(small, camera)
        assert torch.equal(draw_in_tiles(large, camera), expected)
    assert memory.take_left_out() == 0
    draws = [draw_in_tiles(learning(part), camera) for part in (small, small, large, large)]
    assert not torch.allclose(draws[2], expected), "a step does not wait, and says what it lacked"
    assert memory.take_left_out() > 0
    assert memory.take_left_out() == 0
    assert torch.allclose(draw_in_tiles(learning(large), camera), expected)


def test_degenerate_gaussians_have_finite_gradients(draw: Drawer) -> None:
    gaussians = some_gaussians(1, 12, torch.float32)
    positions, scales, opacities = (
        part.clone() for part in (gaussians[0], gaussians[1], gaussians[4])
    )
    positions[0, 0] = torch.tensor([0.0, 0.0, -0.01])
    positions[0, 1] = torch.tensor([0.3, 0.0, 0.0])
    positions[0, 2] = torch.tensor([1e6, 0.0, -2.0])
    scales[0, 3], scales[0, 4] = 1e-6, torch.tensor([2.0, 1e-6, 1e-6])
    opacities[0, 5], opacities[0, 6], opacities[0, 7] = 0.0, 1.0, 0.99
    asked = learning(gaussians._replace(positions=positions, scales=scales, opacities=opacities))
    drawn = render(asked, Camera(24), draw)
    (drawn.image.sum() + drawn.coverage.sum()).backward()
    assert all(torch.isfinite(part).all() for part in drawn)
    assert all(torch.isfinite(part.grad).all() for part in asked)


def test_chunks_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for pairs in (1 << 23, 3000):
        monkeypatch.setattr(tiles, "PAIRS_PER_CHUNK", pairs)
        asked = learning(some_gaussians(2, 40, torch.float32, seed=5))
        drawn = render(asked, Camera(30, 0.3), draw_in_tiles)
        drawn.image.square().sum().backward()
        results.append((drawn.image, drawn.distance, asked.opacities.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    assert torch.allclose(results[0][2], results[1][2], rtol=1e-5, atol=1e-6)


def test_a_window_is_that_part_of_the_picture(draw: Drawer) -> None:
    gaussians = some_gaussians(2, 50, torch.float64)
    everything = render(gaussians, Camera(32, 0.3), draw).image
    part = render(gaussians, Camera(32, 0.3, window=(5, 11, 17)), draw).image
    assert torch.allclose(part, everything[:, :, 11:28, 5:22], atol=1e-9)


def test_a_chunk_of_tiles_holds_no_more_pairs_than_fit_in_memory() -> None:
    """All tiles of 64 images of 512 px, every one full of 10,952 Gaussians."""
    pixels, count = 256, 10_952
    tile_widths = [count] * (64 * 32 * 32)
    bounds = chunk_bounds(tile_widths, pixels, count)
    assert [first for first, _ in bounds[1:]] == [last for _, last in bounds[:-1]]
    assert bounds[0][0] == 0 and bounds[-1][1] == len(tile_widths)
    assert all((last - first) * count * pixels <= tiles.PAIRS_PER_CHUNK for first, last in bounds)


def one_gaussian(
    x: float, y: float, z: float, colour=(1.0, 1.0, 1.0), scale=0.1, opacity=0.95
) -> Gaussians:
    return Gaussians(
        torch.tensor([[[x, y, z]]], dtype=torch.float64),
        torch.full((1, 1, 3), scale, dtype=torch.float64),
        torch.eye(3, dtype=torch.float64).view(1, 1, 3, 3),
        torch.tensor([[colour]], dtype=torch.float64),
        torch.full((1, 1), opacity, dtype=torch.float64),
    )


def together(*gaussians: Gaussians) -> Gaussians:
    return Gaussians(*(torch.cat(parts, dim=1) for parts in zip(*gaussians, strict=True)))


def test_one_gaussian_is_its_closed_form(draw: Drawer) -> None:
    """Peak, falloff and integral of a round Gaussian straight ahead: deviation 0.8·S·scale/distance
    pixels.
    """
    size, opacity = 65, 0.9
    image = render(
        one_gaussian(0, 0, -2, scale=0.2, opacity=opacity), Camera(size, 0.3), draw
    ).image[0, 0]
    variance = (0.8 * size * 0.2 / 2) ** 2 + 0.3
    assert image[32, 32] == pytest.approx(opacity, abs=1e-9)
    for step in range(1, 15):
        assert image[32, 32 + step] == pytest.approx(
            opacity * math.exp(-(step**2) / 2 / variance), abs=1e-9
        )
        assert image[32 + step, 32] == pytest.approx(image[32, 32 + step].item(), abs=1e-9)
    cut = 1 - math.exp(-4.5)
    assert image.sum() == pytest.approx(opacity * 2 * math.pi * variance * cut, rel=2e-3)


@pytest.mark.parametrize("near_first", [True, False])
def test_what_is_nearer_hides_what_is_farther(near_first: bool, draw: Drawer) -> None:
    near, far = one_gaussian(0, 0, -1.5, (1, 0, 0)), one_gaussian(0, 0, -3.0, (0, 0, 1))
    both = together(near, far) if near_first else together(far, near)
    drawn = render(both, Camera(33), draw)
    red, _, blue = drawn.image[0, :, 16, 16]
    assert red == pytest.approx(0.95, abs=1e-6)
    assert blue == pytest.approx(0.05 * 0.95, abs=1e-6)
    assert drawn.coverage.max() <= 1
    assert drawn.distance[0, 16, 16] == pytest.approx(1.5 * 0.95 + 3.0 * 0.05 * 0.95, abs=1e-6)


def test_nothing_adds_up_to_more_than_everything(draw: Drawer) -> None:
    drawn = render(some_gaussians(2, 300, torch.float64, seed=8), Camera(40), draw)
    assert 0.99 < drawn.coverage.max() <= 1
    assert drawn.image.max() <= 1


def test_a_quarter_turn_of_the_camera_turns_the_picture(draw: Drawer) -> None:
    """Turning everything about the line of sight by 90 degrees turns the picture by 90 degrees."""
    gaussians = some_gaussians(1, 40, torch.float64, seed=2)
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    turned = gaussians._replace(
        positions=gaussians.positions @ turn.T, rotations=turn @ gaussians.rotations
    )
    straight, quarter = (render(one, Camera(32, 0.3), draw).image for one in (gaussians, turned))
    assert torch.allclose(quarter, straight.rot90(1, (2, 3)), atol=1e-9)


@pytest.mark.parametrize("geometry", ["patch"])
def test_the_colours_of_a_checker_are_in_their_corners(geometry: str) -> None:
    """Red top left, green top right, blue bottom left, white bottom right, from raw numbers on."""
    layout = Layout.of_patches(geometry)
    raw = torch.zeros(1, 37 * 37, 16)
    raw[..., 6] = raw[..., 10] = 1
    raw[..., 3:6] = 0.5
    raw[..., 15] = 4
    left, top = layout.across < 0, layout.down < 0
    colours = torch.full((37 * 37, 3), -4.0)
    colours[left & top, 0] = colours[~left & top, 1] = colours[left & ~top, 2] = 4.0
    colours[~left & ~top] = 4.0
    raw[0, :, 12:15] = colours
    image = render(
        to_gaussians(raw, layout, None, torch.tensor(-2.0)), Camera(64, 0.3), draw_in_tiles
    ).image[0]
    corners = {(4, 4): (1, 0, 0), (4, 59): (0, 1, 0), (59, 4): (0, 0, 1), (59, 59): (1, 1, 1)}
    for (row, column), expected in corners.items():
        assert torch.allclose(
            image[:, row, column], torch.tensor(expected, dtype=torch.float32), atol=0.05
        )


def test_nothing_behind_the_camera_is_drawn(draw: Drawer) -> None:
    assert render(one_gaussian(0, 0, 1.0), Camera(16), draw).image.max() == 0


def test_with_the_blur_of_viewers_a_tiny_gaussian_is_seen_wherever_it_lies(draw: Drawer) -> None:
    seen = []
    for offset in (0.0, 0.25, 0.5, 0.75):
        tiny = one_gaussian(offset * 2 / (0.8 * 32), 0, -2.0, scale=1e-5)
        seen.append(render(tiny, Camera(32, 0.3), draw).image[0, 0].sum().item())
    assert min(seen) > 0.8 * max(seen) > 0


def test_a_view_from_the_right_moves_what_is_near_to_the_left() -> None:
    pose = torch.deg2rad(torch.tensor([[0.0, 30.0]], dtype=torch.float64))
    near = seen_from(one_gaussian(0, 0, -2.0), pose).positions[0, 0]
    far = seen_from(one_gaussian(0, 0, -4.0), pose).positions[0, 0]
    assert near[0] < -0.4 < 0.4 < far[0]
    above = seen_from(
        one_gaussian(0, 0, -2.0), torch.deg2rad(torch.tensor([[30.0, 0.0]], dtype=torch.float64))
    )
    assert above.positions[0, 0, 1] < -0.4


@pytest.mark.skipif(find_spec("numba") is None, reason="no numba")
def test_compiled_loops_leave_torch_the_threads_it_was_given() -> None:
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from trainers.gaussian.cpu_kernels import use_threads_of_torch\n"
        "import numba\n"
        "use_threads_of_torch(); print(torch.get_num_threads(), numba.get_num_threads())\n"
    )
    # Two threads in numba's pool, however many cores and settings there are here.
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_NUM_THREADS": "2", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1", "1"]
