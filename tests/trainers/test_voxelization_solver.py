"""The Poisson solver: sign, volume and surface of a sphere, gradients, other than cubic grids."""

import math

import pytest

torch = pytest.importorskip("torch")

from trainers.voxelization.dpsr import (  # noqa: E402
    CORNERS,
    DPSR,
    PoissonField,
    sample_grid,
    spectral_grids,
    trilinear,
)

pytestmark = pytest.mark.trainers


def sphere(count: int, radius: float, centre) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on a sphere by the golden spiral, and their outward normals."""
    i = torch.arange(count, dtype=torch.float64) + 0.5
    polar, turn = torch.acos(1 - 2 * i / count), math.pi * (1 + 5**0.5) * i
    out = torch.stack([turn.cos() * polar.sin(), turn.sin() * polar.sin(), polar.cos()], -1).float()
    return torch.tensor(centre) + radius * out, out


def rebuilt(points, normals, size: int, sigma: float):
    """The solver as published: every grid made anew, three channels at once, plain autograd."""
    axis = torch.fft.fftfreq(size, 1 / size)
    half = torch.arange(size // 2 + 1).float()
    omega = torch.stack(torch.meshgrid(axis, axis, half, indexing="ij"), -1)
    smooth = torch.exp(-0.5 * (2 * sigma * omega.norm(dim=-1) / size) ** 2)
    grid = torch.zeros(size**3, 3)
    cells, weights = trilinear(points, (size,) * 3)
    for cell, (i, j, k) in zip(cells, CORNERS, strict=True):
        share = weights[0][i] * weights[1][j] * weights[2][k]
        grid = grid.index_add(0, cell, normals * share[:, None])
    spectrum = torch.fft.rfftn(grid.view(size, size, size, 3), dim=(0, 1, 2)) * smooth[..., None]
    omega = 2 * math.pi * omega
    field = (-1j * omega * spectrum).sum(-1) / (1e-6 - (omega**2).sum(-1))
    field[0, 0, 0] = 0
    field = torch.fft.irfftn(field, s=(size,) * 3)
    field = field - sample_grid(field, points).mean()
    return -0.5 * field / field[0, 0, 0].abs()


def test_a_sphere_has_its_sign_volume_and_surface() -> None:
    points, normals = sphere(20_000, 0.3, (0.5, 0.5, 0.5))
    field = DPSR(128)(points[None], normals[None])[0]
    assert field[0, 0, 0].item() == pytest.approx(0.5, abs=1e-6)
    assert field[64, 64, 64] < -0.4
    volume = (field <= 0).float().mean().item()
    assert volume == pytest.approx(4 / 3 * math.pi * 0.3**3, rel=0.02)
    # Where the field is zero along rays from the centre, in voxels from the true surface.
    reach = torch.linspace(0.25, 0.35, 201)
    rays = 0.5 + normals[::100, None] * reach[:, None]
    along = sample_grid(field, rays.reshape(-1, 3)).view(len(rays), -1)
    outside = (along > 0).float()
    assert (outside.diff(dim=1) >= 0).all()
    crossing = reach[outside.argmax(1)]
    assert ((crossing - 0.3) * 128).square().mean().sqrt() < 0.5
    inward = DPSR(128)(points[None], -normals[None])[0]
    torch.testing.assert_close(inward, -field, atol=1e-5, rtol=0)


def test_the_field_is_that_of_the_published_solver() -> None:
    points, normals = sphere(3000, 0.31, (0.48, 0.5, 0.53))
    normals = normals * torch.rand(3000, 1, generator=torch.Generator().manual_seed(0))
    ours = DPSR(48)(points[None], normals[None])[0]
    assert (ours - rebuilt(points, normals, 48, 2.0)).abs().max() < 2e-3
    mine, theirs = (t.detach().clone().requires_grad_() for t in (points, points))
    # A smooth weight: a loss sees next to nothing of the highest frequencies, which ours drops.
    weights = ours.detach() ** 2
    (DPSR(48)(mine[None], normals[None])[0] * weights).sum().backward()
    (rebuilt(theirs, normals, 48, 2.0) * weights).sum().backward()
    assert (mine.grad - theirs.grad).norm() / theirs.grad.norm() < 5e-3


def test_a_grid_that_is_no_cube_holds_the_same_sphere() -> None:
    points, normals = sphere(8000, 0.2, (0.36, 0.5, 0.25))
    field = DPSR((72, 96, 48))(points[None], normals[None])[0]
    assert field.shape == (72, 96, 48)
    volume = (field <= 0).sum().item() / 96**3
    assert volume == pytest.approx(4 / 3 * math.pi * 0.2**3, rel=0.02)
    # The surface is as round along each axis.
    inside = torch.nonzero(field <= 0).float()
    extents = inside.amax(0) - inside.amin(0)
    assert extents.max() - extents.min() <= 1


def test_gradients_to_points_and_normals_agree_with_finite_differences() -> None:
    chance = torch.Generator().manual_seed(3)
    points = torch.rand(6, 3, generator=chance, dtype=torch.float64) * 0.4 + 0.2
    normals = torch.randn(6, 3, generator=chance, dtype=torch.float64)
    inputs = (points.requires_grad_(), normals.requires_grad_())
    shape = (8, 6, 10)
    assert torch.autograd.gradcheck(lambda a, b: PoissonField.apply(a, b, shape, 1.0), inputs)
    solver, weights = DPSR(shape, 1.0), torch.randn(shape, generator=chance, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda a, b: (solver(a[None], b[None])[0] * weights).sum(), inputs
    )


def test_grids_are_built_once_and_the_batch_is_solved_one_by_one() -> None:
    points, normals = sphere(500, 0.3, (0.5, 0.5, 0.5))
    solver = DPSR(24)
    both = solver(torch.stack([points, points * 0.9]), torch.stack([normals, normals]))
    before = spectral_grids.cache_info().misses
    alone = solver(points[None] * 0.9, normals[None])[0]
    assert spectral_grids.cache_info().misses == before
    assert torch.equal(both[1], alone)
    with pytest.raises(ValueError, match="at least 4"):
        DPSR(2)
