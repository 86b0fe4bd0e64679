"""Steps and judging on a device that is not the CPU: what would meet tensors of both is found here.

Tensors without content on a device that Python alone declares: nothing is computed, but PyTorch
refuses an operator whose operands lie apart, as a GPU would.
"""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nibabel")
registration = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this PyTorch declares no device by Python", allow_module_level=True)

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402

from trainers.cascade import config  # noqa: E402
from trainers.cascade import diffusion as volumes  # noqa: E402
from trainers.cascade.blocks import Lifting  # noqa: E402
from trainers.cascade.cascade import Cascade  # noqa: E402
from trainers.cascade.geometry import ConeBeam  # noqa: E402
from trainers.cascade.losses import physics_error, spoil, stage_loss  # noqa: E402
from trainers.cascade.metrics import volume_metrics  # noqa: E402
from trainers.cascade.model import reduce  # noqa: E402
from trainers.gaussian import losses, tiles  # noqa: E402
from trainers.gaussian.decoder import DecoderSettings, make_decoder  # noqa: E402
from trainers.gaussian.evaluation import judge_batch  # noqa: E402
from trainers.gaussian.geometry import seen_from  # noqa: E402
from trainers.gaussian.hfts import sample_gaussians, split_gaussians  # noqa: E402
from trainers.gaussian.projection import Camera  # noqa: E402
from trainers.gaussian.render import render  # noqa: E402
from trainers.gaussian.views import turned_photographs  # noqa: E402
from trainers.pcdiff import geometry, neighbours_torch  # noqa: E402
from trainers.pcdiff.completing import noise_predictor  # noqa: E402
from trainers.pcdiff.diffusion import (  # noqa: E402
    PointDiffusion,
    gaussian_noise_losses,
    make_betas,
    noise_losses,
)
from trainers.pcdiff.model import PVCNN, Sizes  # noqa: E402
from trainers.pcdiff.samplers import Sampling, draw  # noqa: E402
from trainers.voxelization.data import target_of  # noqa: E402
from trainers.voxelization.dpsr import DPSR, spectral_grids  # noqa: E402
from trainers.voxelization.model import Architecture, Voxelizer  # noqa: E402
from trainers.voxelization.validation import grid_scores, psr_loss  # noqa: E402

pytestmark = pytest.mark.trainers
NAME = "elsewhere"


@pytest.fixture(scope="module")
def device() -> Any:
    """A device on which nothing can be computed."""
    registration._setup_privateuseone_for_python_backend(NAME)
    getattr(torch, NAME).get_amp_supported_dtype = lambda: [torch.bfloat16]
    return torch.device(NAME, 0)


@pytest.fixture(autouse=True)
def without_content(device: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors made inside have a shape and a device, and every number that is read is 1."""

    def ones(shape: tuple[int, ...]) -> Any:
        return [ones(shape[1:]) for _ in range(shape[0])] if shape else 1.0

    monkeypatch.setattr(FakeTensor, "tolist", lambda tensor: ones(tuple(tensor.shape)))
    for name, value in (("item", 1.0), ("__float__", 1.0), ("__int__", 1), ("__bool__", True)):
        monkeypatch.setattr(torch.Tensor, name, lambda _, value=value: value)

    def made(self: Any, values: Any, **more: Any) -> Any:
        return torch.empty(torch.Size(shape_of(values)), dtype=self.dtype, device=self.device)

    # Numbers that are sent as they are: what is sent keeps its content, which nothing here has.
    monkeypatch.setattr(torch.Tensor, "new_tensor", made)
    spectral_grids.cache_clear()
    with FakeTensorMode():
        yield
    spectral_grids.cache_clear()


def shape_of(values: Any) -> list[int]:
    return [len(values), *shape_of(values[0])] if isinstance(values, list) else []


def there(network: nn.Module, device: Any) -> nn.Module:
    """A network with its parameters and buffers on the device."""
    for module in network.modules():
        for name, part in list(module._parameters.items()):
            if part is not None:
                empty = torch.empty(part.shape, dtype=part.dtype, device=device)
                module._parameters[name] = nn.Parameter(empty)
        for name, part in list(module._buffers.items()):
            module._buffers[name] = torch.empty(part.shape, dtype=part.dtype, device=device)
    return network


def step(network: nn.Module, loss: Any) -> torch.optim.Optimizer:
    """One step of what all trainers do after a loss."""
    optimiser = torch.optim.AdamW(network.parameters(), 1e-3)
    loss.backward()
    nn.utils.clip_grad_norm_(list(network.parameters()), 1.0)
    optimiser.step()
    return optimiser


@pytest.mark.parametrize(
    "settings",
    [
        DecoderSettings(2, 8, 2, depth_fusion=True, pose_encoding=True),
        DecoderSettings(2, 8, 2, geometry="upstream"),
        DecoderSettings(4, 8, spiral_points=20),
        DecoderSettings(5, 8, spiral_points=20, nca_steps=2),
    ],
    ids=["told depth and pose", "upstream", "spiral", "cells"],
)
def test_a_decoder_learns_and_is_judged(
    settings: DecoderSettings, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "MEMORY", tiles.FillMemory(dear=lambda _: False))
    decoder = there(make_decoder(settings), device).train()
    image, disparity = (torch.rand(2, parts, 32, 32, device=device) for parts in (3, 1))
    features, pose = torch.rand(2, 8, 37, 37, device=device), torch.rand(2, 2, device=device)
    asked = {"pose": pose} if settings.pose_encoding else {}
    made = sample_gaussians(decoder(features, disparity, **asked), 50)
    turned, _ = turned_photographs(image, disparity, pose)
    drawn = render(seen_from(made, pose), Camera(32), tiles.draw_in_tiles)
    weights = losses.LossSettings(depth=0.1, frequency=0.1)
    loss, _ = losses.total_loss(drawn, turned, disparity, weights, None, disparity)
    optimiser = step(decoder, loss)
    if settings.experiment == 2:
        split_gaussians(decoder.mlp.net[-1], optimiser, 1, 2)
    batch = {"features": features, "disparity": disparity, "image": image, "name": ["a", "b"]}
    judged = judge_batch(decoder.eval(), batch, Camera(32), tiles.draw_in_tiles)
    assert {figure.device for figure in judged.figures.values()} == {device}


def test_a_voxelization_learns_and_is_judged(device: Any) -> None:
    network = there(Voxelizer(Architecture(grid_resolution=8, num_levels=2, f_maps=8)), device)
    found = DPSR(16)(*network(torch.rand(2, 50, 3, device=device)))
    bits = torch.zeros(2, 16**3 // 8, dtype=torch.uint8, device=device)
    target = target_of({"gt_bits": bits}, (16, 16, 16))
    step(network, psr_loss(found, target, True, 1.0))
    grid_scores(found.detach(), target, 0.0)


def test_rays_of_a_cone_are_followed_both_ways(device: Any) -> None:
    offsets, field = ((1.0, 2.0), (0.0, -3.0)), (200.0, 200.0, 200.0)
    cone = ConeBeam(500.0, 900.0, (300.0, 400.0), offsets, field, ("front", "left"))
    volume, views = torch.rand(2, 1, 8, 8, 8, device=device), ("frontal", "lateral")
    physics_error(volume, torch.rand(2, 2, 8, 8, device=device), views, volume.new_ones(2, 3), cone)
    lifting = there(Lifting(views, 8, 4, 16, True, cone), device)
    lifting([torch.rand(2, 8, 8, 8, device=device) for _ in views]).sum().backward()
    for view in views:
        assert cone.spread(torch.rand(2, 1, 8, 8, device=device), view, 8).device == device


@pytest.mark.parametrize("saving", [False, True], ids=["", "checkpointing"])
def test_a_cascade_learns_and_is_sampled(
    saving: bool, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("diffusers")
    monkeypatch.setattr(volumes, "seeded_generator", lambda *_: None)
    stage = {"volume_size": [8] * 3, "voxel_dim": 16, "vit_depth": 1, "num_heads": 2}
    stages = [stage, stage | {"name": "second", "volume_size": [16] * 3, "patch_size": 4}]
    made = config.build_config({"xray_config": {"img_size": 16}, "stage_configs": stages}, [])
    made.training["gradient_checkpointing"] = saving
    cascade = Cascade.of(made)
    monkeypatch.setattr("trainers.cascade.cascade.CascadeStage.to", there)
    network = [cascade.add_stage(device) for _ in stages][-1]
    x0, xrays = torch.rand(2, 1, *[16] * 3, device=device), torch.rand(2, 2, 16, 16, device=device)
    t, level = torch.randint(1000, (2,), device=device), torch.rand(2, device=device)
    before = spoil(reduce(x0, 8), level, [None, None])
    z0, noise = network.standardise(x0), torch.randn_like(x0)
    spacing, integrals = torch.rand(2, 3, device=device), torch.rand(2, 2, 16, 16, device=device)
    given = (integrals, made.views, spacing, made.geometry)
    output = network.train()(cascade.diffusion.add_noise(z0, noise, t), t, xrays, before, level)
    loss = stage_loss(cascade.diffusion, output, z0, noise, t, given, 0.1, network.volume_of)
    step(network, loss.total.sum())
    cascade.levels = [0.1]
    drawn = cascade.run(xrays[:1], [(0,)], 2, 2, 2, float(saving))[-1][0]
    volume_metrics(drawn[0], x0[0])
    assert drawn.device == device


def test_a_point_network_learns_and_draws(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Sizes(points=48, implant_points=16, embedding=8, width=0.25, voxels=0.25,
                  up_convolutions=1)  # fmt: skip
    search = geometry._search_on_device

    def three_each(points: Any, centres: Any, radius: float, most: int) -> Any:
        """As many neighbours as every centre has: how many there are depends on content."""
        count = points.shape[0] * centres.shape[1]
        assert (neighbours_torch._squares(centres[0], points[0]) < radius).device == device
        return (torch.zeros(3 * count, dtype=torch.int64, device=device),
                torch.full((count,), 3, dtype=torch.int64, device=device))  # fmt: skip

    def searched(points: Any, balls: Any, *given: Any) -> Any:
        def told(_: Any) -> list[int]:
            numbers = range(1, len(points) + 1)
            return [1, *(3 * ball.centres * number for ball in balls for number in numbers)]

        with pytest.MonkeyPatch.context() as here:
            here.setattr(FakeTensor, "tolist", told)
            return search(points, balls, *given)

    monkeypatch.setattr(neighbours_torch, "ball_query", three_each)
    monkeypatch.setattr(geometry, "_search_on_device", searched)
    network = there(PVCNN(sizes, "torch"), device).train()
    diffusion = PointDiffusion(make_betas("linear", 1e-4, 0.02, 100), "v")
    diffusion._tables[device] = torch.empty(100, dtype=torch.float64, device=device)
    skull, implant = torch.rand(2, 3, 32, device=device), torch.rand(2, 3, 16, device=device)
    steps = torch.zeros(2, dtype=torch.int64, device=device)
    found = noise_losses(network, diffusion, skull, implant, steps, torch.randn_like(implant))
    step(network, (found * diffusion.weights(steps, "mse_minsnr", 5.0)).mean())
    three = torch.rand(3, device=device)
    gaussian_noise_losses(diffusion, three, three, implant, steps, torch.randn_like(implant))
    with torch.no_grad():
        predict = noise_predictor(network.eval(), diffusion, skull[0])
        assert draw(predict, implant[:1], diffusion, Sampling("ddim", 1)).device == device
        for sampling in (Sampling("ddpm", 2), Sampling("ddim", 2)):
            plain = draw(lambda points, _: -points, implant, diffusion, sampling)
            assert plain.device == device


def test_what_lies_apart_is_refused(device: Any) -> None:
    """Else the tests above could not fail."""
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(3, device=device) + torch.ones(3)
