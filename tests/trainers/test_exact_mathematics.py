"""What holds exactly, in float64: gradients, orders of convergence, adjoints, symmetries."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import gradcheck  # noqa: E402

from trainers.cascade import metrics  # noqa: E402
from trainers.cascade.patients import fit  # noqa: E402
from trainers.gaussian import losses  # noqa: E402
from trainers.gaussian.geometry import rotation_from_6d  # noqa: E402
from trainers.pcdiff.diffusion import PointDiffusion  # noqa: E402
from trainers.pcdiff.geometry import Ball, place_in_grid, survey  # noqa: E402
from trainers.pcdiff.judging import chamfer  # noqa: E402
from trainers.pcdiff.operators import (  # noqa: E402
    average_into_voxels,
    group_norm_rows,
    largest_of_groups,
    read_from_voxels,
    weighted_rows,
)
from trainers.pcdiff.samplers import Sampling, draw  # noqa: E402
from trainers.skulls.metrics import score  # noqa: E402
from trainers.skulls.mirror import mirror_plane, reflect  # noqa: E402
from trainers.voxelization.dpsr import DPSR  # noqa: E402

pytestmark = pytest.mark.trainers


def numbers(*shape: int, seed: int = 0, asked: bool = False) -> torch.Tensor:
    """Evenly drawn from 0 to 1, in float64."""
    chance = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=chance, dtype=torch.float64).requires_grad_(asked)


@pytest.mark.parametrize("term", ["ssim", "depth", "frequency"])
def test_terms_of_the_picture_loss_have_the_gradients_that_differences_have(term: str) -> None:
    first, second = numbers(1, 3, 12, 13, asked=True), numbers(1, 3, 12, 13, seed=1)
    of = {
        "ssim": lambda image: losses.ssim(image, second),
        "depth": lambda image: losses.depth_loss(image[:, 0], image[:, 1] + 0.1, second[:, :1]),
        "frequency": lambda image: losses.frequency_loss(image, second, 0.2, 3.0),
    }[term]
    assert gradcheck(of, first)


def test_similarity_is_the_same_however_both_pictures_are_turned() -> None:
    first, second = numbers(2, 3, 12, 17), numbers(2, 3, 12, 17, seed=1)
    found = losses.ssim(first, second)
    for a, b in ((second, first), (first.flip(2), second.flip(2)), (first.mT, second.mT)):
        torch.testing.assert_close(losses.ssim(a, b), found, rtol=1e-12, atol=0)
    one, other = numbers(1, 7, 9, 12) * 900, numbers(1, 7, 9, 12, seed=1) * 900
    figure = metrics.ssim(one, other)
    for axes in itertools.permutations((1, 2, 3)):
        a, b = (volume.permute(0, *axes).flip(1) for volume in (one, other))
        assert metrics.ssim(b, a) == pytest.approx(figure, rel=1e-12)


@pytest.mark.parametrize("shape", [(12, 12), (9, 14)])
def test_amplitudes_have_the_size_of_the_picture_itself(shape: tuple[int, int]) -> None:
    """Parseval's identity; and a constant picture has no frequency above the cutoff."""
    image = numbers(1, 3, *shape)
    found = losses.frequency_loss(image, 0 * image, 0.0, 3.0)
    torch.testing.assert_close(found, 3 * image.square().mean(), rtol=1e-12, atol=0)
    flat = torch.full_like(image, 0.5)
    torch.testing.assert_close(
        losses.frequency_loss(flat, 0 * flat, 0.05, 3.0), flat.square().mean(), rtol=1e-12, atol=0
    )


def test_depth_is_compared_whatever_its_scale_and_offset() -> None:
    distance, disparity = numbers(2, 8, 8) + 1, numbers(2, 1, 8, 8, seed=1)
    coverage = numbers(2, 8, 8, seed=2) + 0.1
    found = losses.depth_loss(distance * coverage, coverage, disparity)
    other = losses.depth_loss((3 * distance + 7) * coverage, coverage, 0.2 * disparity - 5)
    torch.testing.assert_close(other, found, rtol=1e-10, atol=0)


def test_six_numbers_are_a_rotation_and_have_its_gradient() -> None:
    raw = numbers(5, 6, asked=True)
    turned = rotation_from_6d(raw)
    torch.testing.assert_close(turned.mT @ turned, torch.eye(3).double().expand(5, 3, 3))
    torch.testing.assert_close(torch.linalg.det(turned), torch.ones(5).double())
    assert gradcheck(rotation_from_6d, raw)


def normal_flow(order: int, steps: int) -> float:
    """The error of DDIM where its exact end is known: the flow of N(1.5, 0.3²), in closed form."""
    mean, deviation = 1.5, 0.3
    noises = np.linspace(1e-4, 3.0, 1601)  # sigma, evenly
    kept = 1 / (1 + noises**2)
    diffusion = PointDiffusion(1 - kept / np.concatenate(([1.0], kept[:-1])))

    def ideal(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        power = float(diffusion.kept[int(timesteps[0])])
        signal, spread = math.sqrt(power), math.sqrt(1 - power)
        return spread * (points - signal * mean) / ((signal * deviation) ** 2 + spread**2)

    start = numbers(1, 3, 4)
    found = draw(ideal, start, diffusion, Sampling("ddim", steps + 1, order=order))
    moved = start * math.sqrt(1 + noises[-1] ** 2) - mean
    exact = mean + moved * deviation / math.sqrt(deviation**2 + noises[-1] ** 2)
    return float((found - exact).abs().max())


@pytest.mark.parametrize("order", [1, 2])
def test_ddim_comes_near_its_flow_by_its_order(order: int) -> None:
    errors = [normal_flow(order, steps) for steps in (200, 400, 800)]
    for coarse, fine in itertools.pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize("steps", [1, 2, 7, 60])
@pytest.mark.parametrize("method", ["ddim", "ddpm"])
def test_one_point_is_found_exactly_in_any_number_of_steps(method: str, steps: int) -> None:
    """Where all there is is one cloud, each way to it is straight, and no noise is left on it."""
    diffusion, cloud = PointDiffusion(np.linspace(1e-4, 0.05, 60)), numbers(1, 3, 5)

    def ideal(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        power = float(diffusion.kept[int(timesteps[0])])
        return (points - math.sqrt(power) * cloud) / math.sqrt(1 - power)

    chance = torch.Generator().manual_seed(3)
    found = draw(ideal, 3 * numbers(1, 3, 5, seed=1), diffusion, Sampling(method, steps), chance)
    torch.testing.assert_close(found, cloud, rtol=0, atol=1e-10)


def test_the_operators_on_points_have_the_gradients_that_differences_have() -> None:
    points = numbers(1, 20, 3).float() * 2 - 1
    voxels, level = place_in_grid(points, 3), survey(points, [Ball(6, 0.7, 5)])[0]
    rows, coarse = numbers(20, 4, asked=True), numbers(6, 4, seed=1, asked=True)
    scale, shift = numbers(4, seed=2, asked=True), numbers(4, seed=3, asked=True)

    def of(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, known, scale, shift = inputs
        grid = average_into_voxels(values, voxels)
        plain = group_norm_rows(values.repeat(2, 1), None, 2, scale, shift, batch=2)
        grouped = values.index_select(0, level.groups.members)
        grouped = group_norm_rows(grouped, level.groups.weights.double(), 2, scale, shift)
        read = read_from_voxels(grid, voxels)
        return (
            read,
            weighted_rows(known, level.nearest, level.shares),
            plain,
            largest_of_groups(grouped, level.groups, 0),
        )

    assert gradcheck(of, (rows, coarse, scale, shift), atol=1e-6)


def test_the_solved_field_moves_with_the_points_and_turns_with_the_normals() -> None:
    shape = (12, 8, 10)
    points, normals = numbers(1, 30, 3) * 0.4 + 0.1, numbers(1, 30, 3, seed=1) - 0.5
    solver = DPSR(shape, 1.0)
    # The corner by which the field is scaled stays out of it: fields are compared to a factor.
    field = solver(points, normals)[0]

    def centred(found: torch.Tensor) -> torch.Tensor:
        found = found - found.mean()
        return found / found.square().mean().sqrt()

    # Over the far side of each axis: the grid is a period.
    moved = solver(points + torch.tensor([7, 5, 6]).double() / 12, normals)[0]
    other = centred(field).roll((7, 5, 6), (0, 1, 2))
    torch.testing.assert_close(centred(moved).abs(), other.abs(), rtol=0, atol=1e-9)
    torch.testing.assert_close(solver(points, 5 * normals)[0], field, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(solver(points, -normals)[0], -field, rtol=1e-9, atol=1e-9)


def test_shrinking_keeps_the_mean_and_growing_a_straight_line() -> None:
    volume = numbers(1, 1, 12, 8, 6)
    torch.testing.assert_close(fit(volume, (4, 4, 3)).mean(), volume.mean(), rtol=1e-12, atol=0)
    line = torch.arange(6).double().expand(1, 1, 4, 5, 6)
    inner = fit(line, (4, 5, 12))[..., 1:-1]
    torch.testing.assert_close(inner.diff(), torch.full_like(inner.diff(), 0.5))


def test_chamfer_is_a_distance_of_shapes() -> None:
    chance = np.random.default_rng(0)
    first, second = chance.random((40, 3)), chance.random((25, 3))
    found = chamfer(first, second)
    turn = np.linalg.qr(chance.standard_normal((3, 3)))[0]
    for a, b, factor in (
        (second, first, 1),
        (first[::-1], np.concatenate((second[9:], second[:9])), 1),
        (first @ turn + 4, second @ turn + 4, 1),
        (7 * first, 7 * second, 7),
    ):
        assert chamfer(a, b) == pytest.approx(factor * found, rel=1e-12)
    assert chamfer(first, first) == 0
    apart = chamfer(np.zeros((1, 3)), np.array([[0.0, 3, 4], [0, 0, 1]]))
    assert apart == pytest.approx((1 + (5 + 1) / 2) / 2)


def test_figures_of_an_implant_do_not_depend_on_how_volumes_lie() -> None:
    chance = np.random.default_rng(1)
    found, truth = (np.zeros((30, 12, 10), bool) for _ in range(2))
    found[2:9, 3:8, 2:6], truth[4:11, 2:8, 3:7] = True, True
    found &= chance.random(found.shape) < 0.8
    skull, spacing = np.roll(truth, 16, 0), (0.7, 1.3, 2.9)
    wanted = score(found, truth, skull, spacing)
    assert 0 < wanted.dice < 1 and 0 < wanted.bdice_10mm < 1 and wanted.hd95_mm > 0
    for axes in itertools.permutations(range(3)):
        turned = [volume.transpose(axes)[::-1, :, ::-1] for volume in (found, truth, skull)]
        there = tuple(spacing[axis] for axis in axes)
        assert score(turned[0], turned[1], turned[2], there) == wanted  # type: ignore[arg-type]
        assert score(turned[1], turned[0], turned[2], there) == wanted  # type: ignore[arg-type]
    plane = mirror_plane(found)
    inside = reflect(reflect(found, plane), plane)
    assert not (inside & ~found).any() and inside.sum() > 0.9 * found.sum()
    both = found | reflect(found, plane)
    assert (reflect(both, mirror_plane(both)) == both).all()
