"""A stage: geometry of its views, its head, what it is conditioned on, and options that act."""

import argparse
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from trainers.cascade.blocks import Lifting, TokenAttention  # noqa: E402
from trainers.cascade.cascade import Cascade  # noqa: E402
from trainers.cascade.config import build_config  # noqa: E402
from trainers.cascade.dataset import Splits  # noqa: E402
from trainers.cascade.diffusion import VolumeDiffusion, seeded_generator, seeded_noise  # noqa: E402
from trainers.cascade.geometry import ParallelBeam  # noqa: E402
from trainers.cascade.losses import spoil, stage_loss  # noqa: E402
from trainers.cascade.model import CascadeStage, StageSizes, enlarge, reduce  # noqa: E402
from trainers.cascade.patients import Calibration  # noqa: E402
from trainers.cascade.run import CascadeRun  # noqa: E402
from trainers.common.ranks import Ranks  # noqa: E402
from trainers.common.stopping import StopRequest  # noqa: E402

pytestmark = pytest.mark.trainers
VIEWS = ("frontal", "lateral")
SIZES = StageSizes("stage1", 8, 2, 32, 1, 2, 8, True, VIEWS, True, 16, None)


def woken(sizes: StageSizes, seed: int = 0) -> CascadeStage:
    """A stage whose gates and last layer are open, as after some training."""
    torch.manual_seed(seed)
    stage = CascadeStage(sizes)
    with torch.no_grad():
        for name, parameter in stage.named_parameters():
            if "modulation" in name or "head.last" in name:
                parameter.normal_(0, 0.1)
    return stage.eval()


def inputs(batch: int = 2, size: int = 8):
    generator = torch.Generator().manual_seed(3)
    x_t = torch.randn(batch, 1, size, size, size, generator=generator)
    xrays = torch.rand(batch, 2, 16, 16, generator=generator) * 2 - 1
    return x_t, torch.tensor([1, 900][:batch]), xrays


def test_a_new_stage_says_zero_and_learns_in_all_its_parts() -> None:
    torch.manual_seed(0)
    stage = CascadeStage(SIZES)
    assert torch.equal(stage(*inputs()), torch.zeros(2, 1, 8, 8, 8))
    stage = woken(SIZES)
    stage(*inputs()).square().sum().backward()
    still = [n for n, p in stage.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not still, still


def test_attention_is_softmax_of_scores() -> None:
    attention = TokenAttention(12, 3, 8)
    tokens, context = torch.randn(2, 5, 12), torch.randn(2, 7, 8)
    q = attention.q(tokens).view(2, 5, 3, 4).transpose(1, 2)
    k, v = (part.view(2, 7, 3, 4).transpose(1, 2) for part in attention.kv(context).chunk(2, -1))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(4)).softmax(-1)
    plain = attention.proj((scores @ v).transpose(1, 2).reshape(2, 5, 12))
    torch.testing.assert_close(attention(tokens, context), plain)


def test_views_are_kept_apart_and_swapping_them_swaps_depth_for_width() -> None:
    stage = woken(SIZES)
    x_t, t, xrays = inputs()
    assert not torch.allclose(stage(x_t, t, xrays), stage(x_t, t, xrays.flip(1)), atol=1e-4)
    voxels = stage.voxel_inputs(x_t, xrays, None)
    swapped = stage.voxel_inputs(x_t.transpose(2, 4), xrays.flip(1), None)
    torch.testing.assert_close(swapped[:, 1], voxels[:, 2].transpose(1, 3))
    torch.testing.assert_close(swapped[:, 2], voxels[:, 1].transpose(1, 3))


def test_a_pixel_lights_the_voxels_on_its_own_ray() -> None:
    stage = woken(SIZES)
    xrays = torch.zeros(1, 2, 16, 16)
    xrays[0, 0, 4:6, 10:12] = 1  # frontal: row 2, column 5 of 8
    xrays[0, 1, 6:8, 2:4] = 1  # lateral: row 3, depth 1
    voxels = stage.voxel_inputs(torch.zeros(1, 1, 8, 8, 8), xrays, None)[0]
    assert [tuple(place) for place in voxels[1].nonzero().tolist()] == [(d, 2, 5) for d in range(8)]
    assert [tuple(place) for place in voxels[2].nonzero().tolist()] == [(1, 3, w) for w in range(8)]


@pytest.mark.parametrize("learned", [True, False])
def test_lifting_shares_a_pixel_out_along_its_ray(learned: bool) -> None:
    lifting = Lifting(VIEWS, 3, 4, 6, learned)
    with torch.no_grad():
        lifting.mix.weight.copy_(torch.eye(6))
        lifting.mix.bias.zero_()
    features = [torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)]
    tokens = lifting(features).transpose(1, 2).view(1, 6, 4, 4, 4)
    pooled = [torch.nn.functional.avg_pool2d(feature, 2) for feature in features]
    torch.testing.assert_close(tokens[:, :3].mean(2), pooled[0])
    torch.testing.assert_close(tokens[:, 3:].mean(4), pooled[1].transpose(2, 3))
    same_everywhere = tokens[:, :3].std(2).max().item() < 1e-6
    assert same_everywhere != learned


def test_shares_along_rays_lie_along_the_view_s_axis() -> None:
    shares = torch.arange(24.0).view(1, 2, 3, 4)  # depth, rows, columns
    spread = ParallelBeam().spread_depths
    assert spread(shares, "frontal")[0, 0, 1, 2, 3] == shares[0, 1, 2, 3]
    assert spread(shares, "lateral")[0, 0, 3, 2, 1] == shares[0, 1, 2, 3], "columns are depth"


def test_the_stage_before_and_its_level_count() -> None:
    stage = woken(replace(SIZES, previous=4, name="stage2"))
    x_t, t, xrays = inputs()
    before, level = torch.rand(2, 1, 4, 4, 4), torch.tensor([0.05, 0.05])
    said = stage(x_t, t, xrays, before, level)
    assert not torch.allclose(
        said, stage(x_t, t, xrays, torch.zeros_like(before), level), atol=1e-3
    )
    assert not torch.allclose(said, stage(x_t, t, xrays, before, level + 0.3), atol=1e-4)
    with pytest.raises(ValueError, match="needs the volume of the stage before"):
        stage(x_t, t, xrays)


def test_spoilt_volumes_have_the_level_of_noise_they_are_told() -> None:
    volume, level = torch.zeros(3, 1, 32, 32, 32), torch.tensor([0.0, 0.1, 0.4])
    spoilt = spoil(
        volume, level, [seeded_generator(torch.device("cpu"), place) for place in range(3)]
    )
    torch.testing.assert_close(spoilt.std((1, 2, 3, 4)), level, rtol=0.05, atol=1e-6)


def test_gradient_checkpointing_changes_memory_and_not_the_gradient() -> None:
    kept = {}
    for checkpointing in (False, True):
        stage = woken(SIZES).train()
        stage.gradient_checkpointing = checkpointing
        held = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, h=held: (h.append(x.numel()), x)[1], lambda x: x
        ):
            loss = stage(*inputs()).square().mean()
        loss.backward()
        kept[checkpointing] = (sum(held), {n: p.grad for n, p in stage.named_parameters()})
    assert kept[True][0] < 0.6 * kept[False][0]
    for name, gradient in kept[False][1].items():
        torch.testing.assert_close(kept[True][1][name], gradient)


@pytest.mark.parametrize(
    "change",
    [
        {"learned_depth": False},
        {"share_view_weights": False},
        {"views": ("frontal",)},
        {"head_channels": 12},
    ],
    ids=str,
)
def test_an_option_changes_the_network(change: dict) -> None:
    plain, changed = CascadeStage(SIZES), CascadeStage(replace(SIZES, **change))
    counts = [sum(p.numel() for p in stage.parameters()) for stage in (plain, changed)]
    assert counts[0] != counts[1]
    x_t, t, xrays = inputs()
    assert changed(x_t, t, xrays[:, : len(changed.sizes.views)]).shape == x_t.shape


def test_bfloat16_stays_finite_and_near() -> None:
    stage = woken(SIZES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = stage(*inputs()).float()
    exact = stage(*inputs())
    assert torch.isfinite(rough).all()
    assert (rough - exact).abs().mean() < 0.05 * exact.abs().mean() + 1e-3


def test_sizes_of_volumes_change_by_means_and_lines() -> None:
    volume = torch.rand(1, 1, 8, 8, 8)
    assert torch.allclose(reduce(volume, 4)[0, 0, 1, 2, 3], volume[0, 0, 2:4, 4:6, 6:8].mean())
    ramp = torch.linspace(0, 1, 4).view(1, 1, 1, 1, 4).expand(1, 1, 4, 4, 4)
    assert torch.allclose(enlarge(ramp, 8)[0, 0, 3, 3, 1:-1].diff(), torch.tensor(1 / 6), atol=1e-6)


def test_it_can_learn_one_random_volume() -> None:
    """One value for each token, enlarged, stays below 10 dB; the bench does 8^3 voxels."""
    torch.manual_seed(0)
    stage = CascadeStage(replace(SIZES, size=4, dim=32))
    diffusion = VolumeDiffusion(100)
    truth = torch.rand(1, 1, 4, 4, 4) * 2 - 1
    xrays = torch.zeros(8, 2, 16, 16)
    steps = 200
    optimiser = torch.optim.AdamW(stage.parameters(), 5e-3, weight_decay=0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    x0 = truth.expand(8, -1, -1, -1, -1)
    for _ in range(steps):
        t, noise = torch.randint(100, (8,)), torch.randn(x0.shape)
        said = stage(diffusion.add_noise(x0, noise, t), t, xrays)
        stage_loss(diffusion, said, x0, noise, t, None, 0).total.mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    noise = seeded_noise((1, 1, 4, 4, 4), torch.device("cpu"), 0)
    found = diffusion.sample(lambda x, t: stage(x, t, xrays[:1]), noise, 20)
    psnr = 10 * math.log10(4 / (found - truth).square().mean().item())
    assert psnr > 25, f"{psnr:.1f} dB"


def test_a_stage_is_compiled_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a backend that traces and generates no code: a compiler need not be there.

    One trace serves all blocks.
    """
    monkeypatch.setattr("trainers.common.compiling.why_not_compiled", lambda device: "")
    plain = torch.nn.Module.compile
    compiled: list[torch.nn.Module] = []

    def counted(graph: torch.fx.GraphModule, given: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return aot_eager(graph, given)

    aot_eager, graphs = torch._dynamo.lookup_backend("aot_eager"), list[torch.fx.GraphModule]()

    def traced(network: torch.nn.Module) -> None:
        compiled.append(network)
        plain(network, backend=counted)

    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    sizes = {"volume_size": [8] * 3, "voxel_dim": 16, "vit_depth": 3, "num_heads": 2}
    made = build_config(
        {"xray_config": {"img_size": 16}, "stage_configs": [sizes | {"patch_size": 4}],
         "training": {"gradient_checkpointing": True, "ema_decay": 0}}, []
    )  # fmt: skip
    x_t, xrays = torch.randn(2, 1, 8, 8, 8), torch.rand(2, 2, 16, 16)
    answers = []
    for asked in (False, True):
        settings = argparse.Namespace(
            seed=1, compile=asked, cuda_graphs=False, checkpoint_dir=Path()
        )
        run = CascadeRun(
            settings, made, Ranks(0, 1, torch.device("cpu")), StopRequest(), Splits([], [], []),
            Calibration("attenuation", 1.0), SimpleNamespace(), SimpleNamespace(), Cascade.of(made),
        )  # fmt: skip
        run.begin_stage()
        torch.nn.init.normal_(run.cascade.stages[0].head.last.weight, std=0.1,
                              generator=torch.Generator().manual_seed(0))  # fmt: skip
        output = run.model(x_t, torch.tensor([3, 7]), xrays)
        output.square().mean().backward()
        answers.append((output, [part.grad for part in run.model.parameters()]))
        network = run.cascade.stages[0]
        assert compiled == ([*network.blocks, network.head] if asked else [])
        assert len(graphs) == (2 if asked else 0)
        assert not any("_orig_mod" in name for name in run.cascade.state_dict())
    (straight, gradients), (traced_output, traced_gradients) = answers
    assert torch.allclose(straight, traced_output, atol=1e-5)
    for one, other in zip(gradients, traced_gradients, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, rtol=1e-3, atol=1e-6)
