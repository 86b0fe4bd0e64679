"""The projector against closed forms, its adjoint, the made-up patients, and the X-rays' loss."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trainers.cascade.geometry import line_integrals  # noqa: E402
from trainers.cascade.losses import physics_error  # noqa: E402
from trainers.cascade.phantoms import (  # noqa: E402
    Ellipsoid,
    made_up_patient,
    midpoints,
    pixelise,
    voxelise,
    x_ray,
)
from trainers.cascade.projector import (  # noqa: E402
    MU_WATER,
    VIEWS,
    back_project,
    hu_from_unit,
    project,
    unit_from_hu,
)

pytestmark = pytest.mark.trainers
TILTED = [
    Ellipsoid((3.0, -8.0, 5.0), (22.0, 31.0, 16.0), 0.6, 900.0),
    Ellipsoid((0, 9, -4), (9, 12, 20), -0.3, -500.0),
]


def test_a_sphere_s_x_ray_is_its_chord() -> None:
    sphere = [Ellipsoid((1.0, 2.0, -3.0), (10.0, 10.0, 10.0), 0.7, 2.0)]
    rows, columns = np.array([2.0, 8.0, 13.0]), np.array([-3.0, 3.0])
    frontal = x_ray(sphere, "frontal", rows, columns)
    chord = [[20.0, 16.0], [16.0, 2 * np.sqrt(100 - 72)], [0.0, 0.0]]
    np.testing.assert_allclose(frontal, 2.0 * np.array(chord), atol=1e-12)
    lateral = x_ray(sphere, "lateral", np.array([2.0]), np.array([1.0, 7.0]))
    np.testing.assert_allclose(lateral, [[40.0, 32.0]], atol=1e-12)


@pytest.mark.parametrize("size", [12, 33])
def test_rays_along_which_voxels_are_exact_are_projected_exactly(size: int) -> None:
    volume = torch.from_numpy(voxelise(TILTED, size, 80.0, 1))
    across = midpoints(size, 80.0)
    exact = x_ray(TILTED, "frontal", across, across)
    np.testing.assert_allclose(project(volume, "frontal", 80.0 / size).numpy(), exact, atol=1e-9)


def test_the_other_view_converges_to_the_closed_form() -> None:
    errors = []
    for size in (16, 32, 64):
        volume = torch.from_numpy(voxelise(TILTED, size, 80.0, 4))
        found = project(volume, "lateral", 80.0 / size).numpy()
        errors.append(np.abs(found - pixelise(TILTED, "lateral", size, 80.0, 4)).mean())
    assert errors[0] / errors[1] > 2 and errors[1] / errors[2] > 2
    assert errors[2] < 1e-3 * 900 * 32


def test_a_smooth_body_reaches_the_closed_form_to_a_millionth() -> None:
    axis = torch.from_numpy(midpoints(64, 16.0))
    bell = torch.exp(
        -(axis[:, None, None] ** 2 + axis[None, :, None] ** 2 / 2 + axis[None, None, :] ** 2 / 3)
    )
    frontal = np.sqrt(np.pi) * torch.exp(-(axis[:, None] ** 2 / 2 + axis[None, :] ** 2 / 3))
    lateral = np.sqrt(3 * np.pi) * torch.exp(-(axis[:, None] ** 2 / 2 + axis[None, :] ** 2))
    assert torch.allclose(project(bell, "frontal", 0.25), frontal, atol=1e-6)
    assert torch.allclose(project(bell, "lateral", 0.25), lateral, atol=1e-6)


@pytest.mark.parametrize("view", VIEWS)
def test_back_projection_is_the_adjoint(view: str) -> None:
    generator = torch.Generator().manual_seed(0)
    volume = torch.randn(2, 5, 6, 7, generator=generator)
    spacing = torch.tensor([0.7, 1.9])
    image = project(volume, view, spacing)
    assert image.shape == ((2, 6, 7) if view == "frontal" else (2, 6, 5))
    other = torch.randn(image.shape, generator=generator)
    spread = back_project(other, view, 5 if view == "frontal" else 7, spacing)
    left, right = (image * other).sum(), (volume * spread).sum()
    assert abs(left - right) <= 1e-5 * abs(left)
    volume.requires_grad_(True)
    (project(volume, view, spacing) * other).sum().backward()
    assert torch.allclose(volume.grad, spread, atol=1e-6)


def test_mirrored_left_to_right_only_the_frontal_view_is_mirrored() -> None:
    volume = torch.from_numpy(voxelise(made_up_patient([3], 320.0), 16, 320.0, 2))
    assert torch.equal(project(volume.flip(-1), "frontal"), project(volume, "frontal").flip(-1))
    torch.testing.assert_close(project(volume.flip(-1), "lateral"), project(volume, "lateral"))
    assert not torch.allclose(project(volume, "frontal").flip(-1), project(volume, "frontal"))


def test_turned_by_depth_for_width_the_views_change_places() -> None:
    volume = torch.randn(6, 6, 6)
    turned = volume.transpose(0, 2)
    torch.testing.assert_close(project(turned, "frontal"), project(volume, "lateral"))
    torch.testing.assert_close(project(turned, "lateral"), project(volume, "frontal"))


def test_made_up_patients_are_bodies_and_do_not_repeat() -> None:
    volumes = [
        voxelise(made_up_patient([5, place], 320.0), 16, 320.0, 2) - 1000 for place in range(12)
    ]
    for volume in volumes:
        assert volume.min() >= -1000 - 1e-9 and 150 < volume.max() < 1024
        assert np.abs(volume[0]).max() > 0, "air around the chest"
        assert (volume[0] == -1000).all()
        assert 0.02 < ((volume > -900) & (volume < -500)).mean() < 0.4, "lungs"
    assert not np.allclose(volumes[0], volumes[1])
    again = voxelise(made_up_patient([5, 0], 320.0), 16, 320.0, 2) - 1000
    assert np.array_equal(volumes[0], again)


def test_the_physics_error_is_a_share_of_the_mean_line_integral() -> None:
    body = made_up_patient([7], 320.0)
    hu = voxelise(body, 32, 320.0) - 1000
    volume = unit_from_hu(torch.from_numpy(hu).float())[None, None]
    exact = np.stack([pixelise(body, view, 32, 320.0) for view in VIEWS]) * MU_WATER / 1000
    integrals = torch.from_numpy(exact).float()[None]
    spacing = torch.full((1, 3), 10.0)
    assert physics_error(volume, integrals, VIEWS, spacing).item() < 0.01, "the right volume"
    air = unit_from_hu(torch.full_like(volume, -1000.0))
    assert physics_error(air, integrals, VIEWS, spacing).item() == pytest.approx(1.0, abs=1e-3)
    twice = physics_error(volume, integrals * 2, VIEWS, spacing)
    assert twice.item() == pytest.approx(0.5, abs=0.01)
    water = line_integrals(
        unit_from_hu(torch.zeros(1, 1, 4, 4, 4)), VIEWS, torch.tensor([[1.0, 2.0, 3.0]])
    )
    assert torch.allclose(water[0, 0], torch.tensor(4 * MU_WATER)), "4 mm of water in front"
    assert torch.allclose(water[0, 1], torch.tensor(12 * MU_WATER)), "12 mm from the side"


def test_the_physics_error_has_the_gradient_that_differences_have() -> None:
    generator = torch.Generator().manual_seed(1)
    volume = torch.rand(1, 1, 3, 3, 3, generator=generator) - 0.5
    integrals = torch.rand(1, 2, 3, 3, generator=generator)
    spacing = torch.tensor([[40.0, 50.0, 60.0]])
    volume.requires_grad_(True)
    physics_error(volume, integrals, VIEWS, spacing).sum().backward()
    step = torch.zeros_like(volume)
    step[0, 0, 1, 2, 0] = 1e-2
    with torch.no_grad():
        both = [physics_error(volume + sign * step, integrals, VIEWS, spacing) for sign in (1, -1)]
    slope = (both[0] - both[1]).item() / 2e-2
    assert volume.grad[0, 0, 1, 2, 0].item() == pytest.approx(slope, rel=1e-2)


def test_hounsfield_units_survive_the_way_there_and_back() -> None:
    hu = torch.tensor([-2000.0, -1024.0, -1000.0, 0.0, 1024.0, 3000.0])
    clipped = torch.tensor([-1024.0, -1024.0, -1000.0, 0.0, 1024.0, 1024.0])
    assert torch.allclose(hu_from_unit(unit_from_hu(hu)), clipped, atol=1e-3)
