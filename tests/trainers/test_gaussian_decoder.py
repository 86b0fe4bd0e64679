"""The decoders: sizes, upstream's names, geometry; and the measures they are judged by."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
metrics = pytest.importorskip("skimage.metrics")

from trainers.gaussian import losses  # noqa: E402
from trainers.gaussian.decoder import (  # noqa: E402
    DecoderSettings,
    DirectPatchDecoder,
    PatchWindow,
    make_decoder,
)
from trainers.gaussian.geometry import GRID, quaternions, rotation_from_6d  # noqa: E402
from trainers.gaussian.projection import Camera, project  # noqa: E402
from trainers.gaussian.render import Drawer, Rendering, render  # noqa: E402

pytestmark = pytest.mark.trainers

NET = {
    "mlp.net.0.weight": (512, 384),
    "mlp.net.0.bias": (512,),
    "mlp.net.3.weight": (512, 512),
    "mlp.net.3.bias": (512,),
    "mlp.net.6.weight": (256, 512),
    "mlp.net.6.bias": (256,),
    "mlp.net.9.weight": (128, 256),
    "mlp.net.9.bias": (128,),
    "mlp.net.12.weight": (64, 128),
    "mlp.net.12.bias": (64,),
    "depth_offset": (),
}
DEPTH = {
    "depth_encoder.encoder.0.weight": (32, 1, 3, 3),
    "depth_encoder.encoder.0.bias": (32,),
    "depth_encoder.encoder.2.weight": (64, 32, 3, 3),
    "depth_encoder.encoder.2.bias": (64,),
    "depth_encoder.encoder.4.weight": (64, 64, 3, 3),
    "depth_encoder.encoder.4.bias": (64,),
    "mlp.net.0.weight": (512, 448),
}
POSE = {
    "pose_encoder.mlp.0.weight": (64, 32),
    "pose_encoder.mlp.0.bias": (64,),
    "pose_encoder.mlp.2.weight": (64, 64),
    "pose_encoder.mlp.2.bias": (64,),
    "opacity_modulator.0.weight": (128, 64),
    "opacity_modulator.0.bias": (128,),
    "opacity_modulator.2.weight": (1, 128),
    "opacity_modulator.2.bias": (1,),
}
SPIRAL = {"depth_offset": (), "spiral_x": (377,), "spiral_y": (377,)}
FIBONACCI = SPIRAL | {
    "mlp.net.0.weight": (512, 384),
    "mlp.net.0.bias": (512,),
    "mlp.net.3.weight": (256, 512),
    "mlp.net.3.bias": (256,),
    "mlp.net.6.weight": (128, 256),
    "mlp.net.6.bias": (128,),
    "mlp.net.9.weight": (16, 128),
    "mlp.net.9.bias": (16,),
}
NCA = SPIRAL | {
    "step_size": (),
    "init_state_net.0.weight": (256, 384),
    "init_state_net.0.bias": (256,),
    "init_state_net.2.weight": (128, 256),
    "init_state_net.2.bias": (128,),
    "init_state_net.4.weight": (16, 128),
    "init_state_net.4.bias": (16,),
    "perception.0.weight": (256, 112),
    "perception.0.bias": (256,),
    "perception.2.weight": (128, 256),
    "perception.2.bias": (128,),
    "update_rule.0.weight": (128, 128),
    "update_rule.0.bias": (128,),
    "update_rule.2.weight": (16, 128),
    "update_rule.2.bias": (16,),
}


@pytest.mark.parametrize(
    ("settings", "shapes", "parameters"),
    [
        (DecoderSettings(), NET, 632_257),
        (DecoderSettings(depth_fusion=True), NET | DEPTH, 720_769),
        (DecoderSettings(pose_encoding=True), NET | POSE, 646_978),
        (DecoderSettings(experiment=4), FIBONACCI, 363_409),
        (DecoderSettings(experiment=5), NCA, 213_922),
    ],
)
def test_takes_a_state_dict_with_upstreams_names_and_shapes(
    settings, shapes: dict, parameters: int
) -> None:
    decoder = make_decoder(settings)
    decoder.load_state_dict(
        {name: torch.zeros(shape) for name, shape in shapes.items()}, strict=True
    )
    assert sum(parameter.numel() for parameter in decoder.parameters()) == parameters


@pytest.mark.parametrize(
    ("feature_dim", "k", "parameters"),
    [(384, 1, 626_065), (384, 8, 640_513), (768, 4, 828_865), (1024, 4, 959_937)],
)
def test_has_the_published_number_of_parameters(feature_dim: int, k: int, parameters: int) -> None:
    decoder = DirectPatchDecoder(DecoderSettings(feature_dim=feature_dim, gaussians_per_patch=k))
    assert sum(parameter.numel() for parameter in decoder.parameters()) == parameters


def untrained(k: int, **more) -> DirectPatchDecoder:
    decoder = DirectPatchDecoder(DecoderSettings(gaussians_per_patch=k, **more)).eval()
    with torch.no_grad():
        decoder.mlp.net[-1].weight.zero_()
    return decoder


def test_patches_lie_on_their_own_pixels_at_any_distance() -> None:
    disparity = torch.rand(1, 1, GRID, GRID, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        centres = project(
            untrained(1)(torch.zeros(1, 384, GRID, GRID), disparity), Camera(74)
        ).centres
    u, v = centres.view(GRID, GRID, 2).unbind(-1)
    middles = (torch.arange(GRID) + 0.5) * 2
    assert torch.allclose(u, middles.expand(GRID, GRID), atol=1e-3)
    assert torch.allclose(v, middles.view(-1, 1).expand(GRID, GRID), atol=1e-3)


@pytest.mark.parametrize("experiment", [4, 5])
def test_the_spiral_covers_the_whole_square(experiment: int, draw: Drawer) -> None:
    decoder = make_decoder(DecoderSettings(experiment=experiment)).eval()
    with torch.no_grad():
        coverage = render(decoder(torch.zeros(1, 384, GRID, GRID)), Camera(32, 0.3), draw).coverage
    assert coverage.min() > 0.3
    assert coverage.mean() > 0.8


@pytest.mark.parametrize("k", [1, 4, 8])
@pytest.mark.parametrize("disparity", [0.0, 1.0])
def test_the_whole_frame_is_covered_from_the_start(k: int, disparity: float, draw: Drawer) -> None:
    with torch.no_grad():
        plane = torch.full((1, 1, GRID, GRID), disparity)
        coverage = render(
            untrained(k)(torch.zeros(1, 384, GRID, GRID), plane), Camera(64, 0.3), draw
        ).coverage
    assert coverage.min() > 0.8


def test_a_disparity_of_one_is_nearest() -> None:
    disparity = torch.zeros(1, 1, GRID, GRID)
    disparity[0, 0, 5, 7] = 1.0
    with torch.no_grad():
        positions = untrained(1)(torch.zeros(1, 384, GRID, GRID), disparity).positions
        theirs = untrained(1, geometry="upstream")(
            torch.zeros(1, 384, GRID, GRID), disparity
        ).positions
    distances = -positions[0, :, 2].view(GRID, GRID)
    assert distances[5, 7] == distances.min() == 2
    assert distances.max() == 4
    assert -theirs[0, 5 * GRID + 7, 2] == 4
    assert theirs[0, 0, 1] == -1


def test_a_window_decodes_only_its_patches() -> None:
    decoder = untrained(4).eval()
    features, disparity = torch.randn(2, 384, GRID, GRID), torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        everything = decoder(features, disparity)
        part = decoder(features, disparity, window=PatchWindow(3, 20, 5))
    grid = everything.positions.view(2, GRID, GRID, 4, 3)[:, 3:8, 20:25].flatten(1, 3)
    assert torch.allclose(part.positions, grid)


def test_what_depth_and_view_say_is_heard() -> None:
    torch.manual_seed(0)
    features, disparity = torch.randn(1, 384, GRID, GRID), torch.rand(1, 1, 64, 64)
    fused = DirectPatchDecoder(DecoderSettings(depth_fusion=True)).eval()
    viewed = DirectPatchDecoder(DecoderSettings(pose_encoding=True)).eval()
    with torch.no_grad():
        told = [fused(features, depth).colours for depth in (disparity, 1 - disparity)]
        seen = [
            viewed(features, None, pose=torch.tensor([[0.0, angle]])).opacities
            for angle in (0.0, 1.0)
        ]
    assert not torch.allclose(*told)
    assert not torch.allclose(*seen)


@pytest.mark.parametrize("experiment", [2, 4, 5])
def test_evaluation_is_deterministic(experiment: int, draw: Drawer) -> None:
    decoder, features = (
        make_decoder(DecoderSettings(experiment=experiment)).eval(),
        torch.randn(2, 384, GRID, GRID),
    )
    with torch.no_grad():
        first, second = (render(decoder(features), Camera(32), draw) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_fewer_gaussians_are_widened_to_cover_as_much() -> None:
    decoder, features = untrained(4), torch.zeros(1, 384, GRID, GRID)
    with torch.no_grad():
        everything, fewer = decoder(features), decoder(features, slots=1)
    assert fewer.opacities.shape == (1, GRID * GRID)
    areas = [(one.scales[..., 0] * one.scales[..., 1]).sum() for one in (everything, fewer)]
    assert torch.allclose(*areas, rtol=1e-4)


def test_quaternions_are_the_rotations() -> None:
    rotations = rotation_from_6d(torch.randn(500, 6, dtype=torch.float64))
    w, x, y, z = quaternions(rotations).unbind(-1)
    again = torch.stack(
        (
            1 - 2 * (y * y + z * z),
            2 * (x * y - w * z),
            2 * (x * z + w * y),
            2 * (x * y + w * z),
            1 - 2 * (x * x + z * z),
            2 * (y * z - w * x),
            2 * (x * z - w * y),
            2 * (y * z + w * x),
            1 - 2 * (x * x + y * y),
        ),
        dim=-1,
    ).view(-1, 3, 3)
    assert torch.allclose(again, rotations, atol=1e-9)
    half_turn = torch.diag(torch.tensor([1.0, -1.0, -1.0]))[None]
    assert torch.allclose(quaternions(half_turn), torch.tensor([[0.0, 1.0, 0.0, 0.0]]), atol=1e-6)


def test_ssim_and_psnr_are_what_scikit_image_calls_so() -> None:
    chance = np.random.default_rng(0)
    first = chance.random((48, 48, 3)).astype(np.float32)
    second = np.clip(first + 0.2 * chance.standard_normal(first.shape).astype(np.float32), 0, 1)
    a, b = (torch.from_numpy(image).permute(2, 0, 1).unsqueeze(0) for image in (first, second))
    similarity = metrics.structural_similarity(
        first,
        second,
        channel_axis=2,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    assert losses.ssim(a, b).item() == pytest.approx(similarity, abs=1e-4)
    assert losses.ssim(a, a).item() == pytest.approx(1.0)
    right = metrics.peak_signal_noise_ratio(first, second, data_range=1.0)
    assert losses.psnr(a, b).item() == pytest.approx(right, abs=1e-3)


def test_depth_loss_is_zero_where_the_order_is_right_and_large_where_it_is_inverted() -> None:
    disparity = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    distance, coverage = 4 - 2 * disparity[:, 0], torch.ones(1, 16, 16)
    assert losses.depth_loss(distance, coverage, disparity) < 1e-4
    assert losses.depth_loss(2 + 2 * disparity[:, 0], coverage, disparity) > 1
    flat = torch.full((1, 16, 16), 3.0, requires_grad=True)
    losses.depth_loss(flat, coverage, disparity).backward()
    assert torch.isfinite(flat.grad).all()


def test_the_frequency_term_is_of_the_size_of_the_others_and_shares_add_up() -> None:
    chance = torch.Generator().manual_seed(0)
    image, other = torch.rand(2, 2, 3, 32, 32, generator=chance)
    drawn = Rendering(other, torch.rand(2, 32, 32, generator=chance), torch.ones(2, 32, 32))
    asked = losses.LossSettings(frequency=0.1)
    total, parts = losses.total_loss(
        drawn, image, torch.rand(2, 1, 32, 32, generator=chance), asked
    )
    assert 0 < parts["frequency"] < 1
    shares = {name: value for name, value in parts.items() if name.startswith("share_")}
    assert set(shares) == {"share_l1", "share_ssim", "share_depth", "share_frequency"}
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-5)
    assert total == pytest.approx(
        (
            parts["l1"]
            + 0.5 * (1 - parts["ssim"])
            + 0.1 * parts["depth"]
            + 0.1 * parts["frequency"]
        ).item(),
        abs=1e-5,
    )
    heavier = losses.frequency_loss(other, image, 0.1, 4.0)
    assert heavier > losses.frequency_loss(other, image, 0.1, 2.0)


def test_lpips_is_read_from_files_and_is_off_without_them(tmp_path) -> None:
    from trainers.gaussian.perceptual import BACKBONE, LAYERS, LINEAR, PLACES, find_lpips

    found, told = find_lpips(tmp_path)
    assert found is None
    assert BACKBONE in told and LINEAR in told
    chance = torch.Generator().manual_seed(0)
    backbone, linear = {}, {}
    for place, (index, (before, after, side, _, _)) in enumerate(zip(PLACES, LAYERS, strict=True)):
        shape = (after, before, side, side)
        backbone[f"features.{index}.weight"] = 0.05 * torch.randn(shape, generator=chance)
        backbone[f"features.{index}.bias"] = torch.zeros(after)
        linear[f"lin{place}.model.1.weight"] = torch.rand(1, after, 1, 1, generator=chance)
    torch.save(backbone, tmp_path / BACKBONE)
    torch.save(linear, tmp_path / LINEAR)
    found, _ = find_lpips(tmp_path)
    image, other = torch.rand(2, 2, 3, 40, 40, generator=chance)
    assert torch.allclose(found(image, image), torch.zeros(2), atol=1e-6)
    near, far = (found(image, image + size * (other - image)) for size in (0.1, 1.0))
    assert (near > 0).all() and (far > near).all()
    drawn = Rendering(other, torch.ones(2, 40, 40), torch.ones(2, 40, 40))
    _, parts = losses.total_loss(drawn, image, None, losses.LossSettings(lpips=0.1), found)
    assert 0 < parts["share_lpips"] < 1
    torch.save({"a": torch.zeros(1)}, tmp_path / LINEAR)
    with pytest.raises(ValueError, match="cannot be read as LPIPS"):
        find_lpips(tmp_path)
