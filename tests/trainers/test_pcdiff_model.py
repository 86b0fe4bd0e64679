"""PVCNN++ against the published tables and against its dense form in plain torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("numba")

from tests.trainers.pcdiff_reference import dense_forward
from trainers.pcdiff.model import PVCNN, Sizes

pytestmark = pytest.mark.trainers
TINY = Sizes(points=768, implant_points=77, embedding=16, width=0.25, voxels=0.25)


def shell(batch: int, points: int) -> torch.Tensor:
    """Made-up skulls with noise in place of an implant, (B, 3, N)."""
    torch.manual_seed(3)
    cloud = torch.randn(batch, 3, points)
    skull = cloud[:, :, : points * 9 // 10]
    skull /= skull.norm(dim=1, keepdim=True) / 2.5
    return cloud


def test_the_published_sizes_and_names() -> None:
    with torch.device("meta"):
        normal, wide = PVCNN(Sizes()), PVCNN(Sizes(width=1.5, embedding=96))
    state = normal.state_dict()
    assert sum(tensor.numel() for tensor in state.values()) == 27_648_963
    assert len(state) == len(wide.state_dict()) == 296
    assert sum(tensor.numel() for tensor in wide.state_dict().values()) == 62_181_411
    assert next(iter(state)) == "sa_layers.0.0.voxel_layers.0.weight"
    shapes = {
        "sa_layers.0.0.voxel_layers.0.weight": (32, 3, 3, 3, 3),
        "sa_layers.0.1.voxel_layers.7.fc.2.weight": (32, 4),
        "sa_layers.0.2.mlps.0.layers.0.weight": (32, 35, 1, 1),
        "sa_layers.1.0.voxel_layers.6.q.weight": (64, 64, 1, 1, 1),
        "sa_layers.1.1.mlps.0.layers.4.bias": (128,),
        "sa_layers.3.mlps.0.layers.6.weight": (512, 256, 1, 1),
        "global_att.norm.weight": (512,),
        "fp_layers.0.0.mlp.layers.0.weight": (256, 832, 1),
        "fp_layers.1.0.mlp.layers.0.weight": (256, 448, 1),
        "fp_layers.2.0.mlp.layers.0.weight": (256, 384, 1),
        "fp_layers.3.0.mlp.layers.0.weight": (128, 192, 1),
        "fp_layers.3.2.point_features.layers.1.bias": (64,),
        "classifier.0.layers.0.weight": (128, 64, 1),
        "classifier.2.weight": (3, 128, 1),
        "embedf.2.bias": (64,),
    }
    assert {name: tuple(state[name].shape) for name in shapes} == shapes
    parts = {"fp_layers.0": 11.15, "fp_layers.1": 11.05, "sa_layers.2": 1.19, "global_att": 1.05}
    for part, millions in parts.items():
        count = sum(tensor.numel() for name, tensor in state.items() if name.startswith(part))
        assert count / 1e6 == pytest.approx(millions, abs=0.006)


@pytest.mark.parametrize("attention", [True, False])
def test_output_and_gradients_are_those_of_the_dense_network(attention: bool) -> None:
    torch.manual_seed(0)
    # Norms over smaller grids amplify rounding too much to compare gradients.
    model = PVCNN(replace(TINY, voxels=0.5, attention=attention)).eval()
    points, steps = shell(2, 768), torch.tensor([3, 700])
    mine, theirs = model(points, steps), dense_forward(model, points, steps)
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
    direction = torch.randn_like(mine)
    parameters = list(model.parameters())
    of_mine = torch.autograd.grad((mine * direction).sum(), parameters)
    of_theirs = torch.autograd.grad((theirs * direction).sum(), parameters)
    with torch.no_grad():
        for one in parameters:
            one.mul_(1 + 6e-8 * torch.randn_like(one))
    moved = dense_forward(model, points, steps)
    of_moved = torch.autograd.grad((moved * direction).sum(), parameters)
    names = dict(model.named_parameters())
    for name, one, other, near in zip(names, of_mine, of_theirs, of_moved, strict=True):
        # What a rounding of the weights does to the reference's own gradient is allowed ten times:
        # norms over few values amplify it.
        rounding = float((near - other).abs().max())
        limit = 2e-3 * max(float(other.abs().max()), 1.0) + 10 * rounding
        assert float((one - other).abs().max()) < limit, name


def test_compiled_and_plain_searches_lead_to_one_output() -> None:
    torch.manual_seed(0)
    model = PVCNN(TINY).eval()
    points, steps = shell(1, 768), torch.tensor([10])
    with torch.no_grad():
        one = model(points, steps)
        model.search = "torch"
        torch.testing.assert_close(one, model(points, steps), atol=1e-6, rtol=0)


def test_a_batch_is_its_samples_one_by_one() -> None:
    torch.manual_seed(0)
    # Grids of 16 voxels a side, where a sample alone takes another kernel than several.
    model = PVCNN(replace(TINY, voxels=0.5)).eval()
    points, steps = shell(3, 768), torch.tensor([10, 500, 900])
    with torch.no_grad():
        together = model(points, steps)
        alone = [model(points[[at]], steps[[at]]) for at in range(3)]
    torch.testing.assert_close(together, torch.cat(alone), atol=2e-5, rtol=1e-4)


def test_time_and_skull_reach_the_implant() -> None:
    torch.manual_seed(0)
    model = PVCNN(TINY).eval()
    points = shell(1, 768)
    moved = points.clone()
    moved[:, 0, :691] *= 0.8
    with torch.no_grad():
        one, late = (model(points, torch.tensor([step]))[:, :, 691:] for step in (10, 900))
        other = model(moved, torch.tensor([10]))[:, :, 691:]
    assert float((one - late).abs().max()) > 1e-3
    assert float((one - other).abs().max()) > 1e-3


def test_half_precision_stays_finite_and_near() -> None:
    torch.manual_seed(0)
    model = PVCNN(TINY).eval()
    points, steps = shell(1, 768), torch.tensor([10])
    with torch.no_grad():
        exact = model(points, steps)
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(points, steps).float()
    assert bool(rough.isfinite().all())
    assert float((rough - exact).norm() / exact.norm()) < 0.1
