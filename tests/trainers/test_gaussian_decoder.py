"""The decoder's size and geometry, and the measures it is judged by."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
metrics = pytest.importorskip("skimage.metrics")

from trainers.gaussian import losses  # noqa: E402
from trainers.gaussian.decoder import GRID, DirectPatchDecoder, sample_gaussians  # noqa: E402
from trainers.gaussian.render import project, render  # noqa: E402

pytestmark = pytest.mark.trainers


@pytest.mark.parametrize(
    ("feature_dim", "k", "parameters"),
    [(384, 4, 632_257), (384, 8, 640_513), (768, 4, 828_865), (1024, 4, 959_937)],
)
def test_has_the_published_number_of_parameters(feature_dim: int, k: int, parameters: int) -> None:
    decoder = DirectPatchDecoder(feature_dim, k)
    assert sum(parameter.numel() for parameter in decoder.parameters()) == parameters


def untrained(k: int) -> DirectPatchDecoder:
    decoder = DirectPatchDecoder(384, k).eval()
    with torch.no_grad():
        decoder.mlp[-1].weight.zero_()
    return decoder


def test_patches_lie_on_their_own_pixels_at_any_distance() -> None:
    disparity = torch.rand(1, GRID, GRID, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        centres = project(untrained(1)(torch.zeros(1, 384, GRID, GRID), disparity), 74).centres
    u, v = centres.view(GRID, GRID, 2).unbind(-1)
    middles = (torch.arange(GRID) + 0.5) * 2
    assert torch.allclose(u, middles.expand(GRID, GRID), atol=1e-3)
    assert torch.allclose(v, middles.view(-1, 1).expand(GRID, GRID), atol=1e-3)


@pytest.mark.parametrize("k", [1, 4, 8])
@pytest.mark.parametrize("disparity", [0.0, 0.5, 1.0])
def test_the_whole_frame_is_covered_from_the_start(k: int, disparity: float) -> None:
    with torch.no_grad():
        plane = torch.full((1, GRID, GRID), disparity)
        coverage = render(untrained(k)(torch.zeros(1, 384, GRID, GRID), plane), 64).coverage
    assert coverage.min() > 0.8


def test_a_disparity_of_one_is_nearest() -> None:
    disparity = torch.zeros(1, GRID, GRID)
    disparity[0, 5, 7] = 1.0
    with torch.no_grad():
        positions = untrained(1)(torch.zeros(1, 384, GRID, GRID), disparity).positions
    distances = -positions[0, :, 2].view(GRID, GRID)
    assert distances[5, 7] == distances.min() == 2
    assert distances.max() == 4


def test_evaluation_is_deterministic() -> None:
    decoder, features = DirectPatchDecoder().eval(), torch.randn(2, 384, GRID, GRID)
    with torch.no_grad():
        first, second = (render(decoder(features), 32) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_fewer_gaussians_are_widened_to_cover_as_much() -> None:
    decoder, features = untrained(4), torch.zeros(1, 384, GRID, GRID)
    with torch.no_grad():
        everything = decoder(features)
        for fewer in (decoder(features, slots=1), sample_gaussians(everything, GRID * GRID)):
            assert fewer.opacities.shape == (1, GRID * GRID)
            area = (fewer.scales[..., 0] * fewer.scales[..., 1]).sum()
            assert torch.allclose(
                area, (everything.scales[..., 0] * everything.scales[..., 1]).sum(), rtol=1e-4
            )


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
    assert losses.psnr(a, b).item() == pytest.approx(
        metrics.peak_signal_noise_ratio(first, second, data_range=1.0), abs=1e-3
    )


def test_depth_loss_is_zero_where_the_order_is_right_and_large_where_it_is_inverted() -> None:
    disparity = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    distance, coverage = 4 - 2 * disparity[:, 0], torch.ones(1, 16, 16)
    assert losses.depth_loss(distance, coverage, disparity) < 1e-4
    assert losses.depth_loss(2 + 2 * disparity[:, 0], coverage, disparity) > 1
