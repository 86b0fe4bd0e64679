"""Schedules and samplers where the answer is known: an ideal denoiser of a normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainers.pcdiff.diffusion import (
    SCHEDULES,
    PointDiffusion,
    gaussian_noise_losses,
    implant_noise,
    make_betas,
    noise_losses,
)
from trainers.pcdiff.samplers import Sampling, draw, kept_timesteps

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
MEAN, DEVIATION = 1.5, 0.3
LINEAR = PointDiffusion(make_betas("linear", 1e-4, 0.02, 1000))


def ideal_noise(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
    """The noise to expect in N(1.5, 0.3²) after the linear schedule."""
    signal, spread = LINEAR.factors(timesteps)
    power = (signal * DEVIATION) ** 2 + spread**2
    return spread * (points - signal * MEAN) / power


def test_tables_are_the_published_ones() -> None:
    kept = LINEAR.kept
    expected = [0.9999, 0.5214, 0.0778, 4.04e-5]
    assert kept[[0, 250, 500, 999]] == pytest.approx(expected, rel=2e-3)
    diffusers = pytest.importorskip("diffusers")
    other = diffusers.DDPMScheduler(1000, beta_start=1e-4, beta_end=0.02)
    np.testing.assert_allclose(kept, other.alphas_cumprod, rtol=2e-4, atol=1e-7)
    cosine = diffusers.DDPMScheduler(1000, beta_schedule="squaredcos_cap_v2").betas
    np.testing.assert_allclose(make_betas("cosine", 1e-4, 0.02, 1000), cosine, rtol=2e-4)


def test_every_schedule_only_loses_signal() -> None:
    for kind in SCHEDULES:
        betas = make_betas(kind, 1e-4, 0.02, 1000)
        assert betas.shape == (1000,) and (betas > 0).all() and (betas <= 0.999).all()
    warm = make_betas("warm0.2", 1e-4, 0.02, 1000)
    assert warm[199] == warm[-1] == 0.02 and warm[100] < 0.02
    with pytest.raises(ValueError, match=r"'warm0\.3' is none of"):
        make_betas("warm0.3", 1e-4, 0.02, 1000)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling("ddpm", 1000),
        Sampling("ddpm", 1000, large_variance=True),
        Sampling("ddim", 50),
        Sampling("ddim", 1000, order=1),
        Sampling("dpm_solver", 20),
        Sampling("dpm_solver", 50),
    ],
    ids=str,
)
def test_samplers_find_mean_and_deviation_within_two_per_cent(sampling: Sampling) -> None:
    if sampling.method == "dpm_solver":
        pytest.importorskip("diffusers")
    chance = torch.Generator().manual_seed(5)
    start = torch.randn(1, 3, 8000, generator=chance)
    start = (start - start.mean()) / start.std()
    found = draw(ideal_noise, start, LINEAR, sampling, chance)
    assert float(found.mean()) == pytest.approx(MEAN, rel=0.02)
    assert float(found.std()) == pytest.approx(DEVIATION, rel=0.02)


def test_first_order_ddim_is_that_of_diffusers() -> None:
    diffusers = pytest.importorskip("diffusers")
    start = torch.randn(1, 3, 50, generator=torch.Generator().manual_seed(0))
    mine = draw(ideal_noise, start, LINEAR, Sampling("ddim", 1000, order=1))
    other = diffusers.DDIMScheduler(
        1000, beta_start=1e-4, beta_end=0.02, clip_sample=False, set_alpha_to_one=True
    )
    other.set_timesteps(1000)
    points = start
    for step in other.timesteps:
        predicted = ideal_noise(points, step.expand(1))
        points = other.step(predicted, step, points, eta=0.0).prev_sample
    torch.testing.assert_close(mine, points, atol=2e-3, rtol=0)


def test_fewer_steps_are_evenly_kept_from_last_to_first() -> None:
    assert kept_timesteps(LINEAR, 5) == [999, 749, 500, 250, 0]
    assert kept_timesteps(LINEAR, 5000)[:2] == [999, 998]
    assert kept_timesteps(LINEAR, 1) == [999], "pure noise is of the last step"


def test_points_that_leave_the_numbers_are_told() -> None:
    with pytest.raises(ArithmeticError, match="ddim left the finite numbers"):
        draw(lambda points, _: points * torch.nan, torch.ones(1, 3, 2), LINEAR, Sampling("ddim", 2))


def test_only_the_implant_is_noised_and_judged() -> None:
    seen = []

    def network(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        seen.append(points)
        return torch.full_like(points, 0.5)

    skull, implant, noise = torch.ones(2, 3, 6), torch.zeros(2, 3, 2), torch.ones(2, 3, 2)
    steps = torch.tensor([0, 999])
    losses = noise_losses(network, LINEAR, skull, implant, steps, noise)
    assert torch.equal(seen[0][:, :, :6], skull)
    spread = (1 - LINEAR.kept[[0, 999]]) ** 0.5
    np.testing.assert_allclose(seen[0][:, 0, 6], spread, rtol=1e-5)
    assert losses.tolist() == [0.25, 0.25]
    assert implant_noise(network, LINEAR, skull, implant, steps).shape == (2, 3, 2)


def test_a_network_that_says_v_is_judged_by_v_and_draws_the_same() -> None:
    in_v = PointDiffusion(LINEAR.betas, "v")

    def ideal(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        signal, spread = in_v.factors(timesteps)
        noise = ideal_noise(points, timesteps)
        return signal * noise - spread * (points - spread * noise) / signal

    points, steps = torch.randn(3, 3, 50), torch.tensor([0, 500, 999])
    found = in_v.noise(ideal(points, steps), points, steps)
    torch.testing.assert_close(found, ideal_noise(points, steps), atol=1e-4, rtol=1e-4)
    skull, noise = torch.ones(3, 3, 6), torch.randn(3, 3, 50)
    losses = noise_losses(lambda all_points, _: 0 * all_points, in_v, skull, points, steps, noise)
    signal, spread = in_v.factors(steps)
    asked = (signal * noise - spread * points).square().mean((1, 2))
    torch.testing.assert_close(losses * in_v.weights(steps, "mse", 5.0), asked, rtol=1e-3, atol=0)


def test_half_of_v_leaves_points_near_where_half_of_the_noise_leaves_them_far_away() -> None:
    in_v = PointDiffusion(LINEAR.betas, "v")

    def as_noise(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        return 0.5 * ideal_noise(points, timesteps)

    def as_v(points: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        signal, spread = in_v.factors(timesteps)
        said = (ideal_noise(points, timesteps) - spread * points) / signal
        return in_v.noise(0.5 * said, points, timesteps)

    start = torch.randn(1, 3, 2000, generator=torch.Generator().manual_seed(0))
    off, near = (draw(said, start, LINEAR, Sampling("ddim", 20)) for said in (as_noise, as_v))
    assert float(off.std()) > 10 * DEVIATION
    assert abs(float(near.mean()) - MEAN) < 0.6 and float(near.std()) < 2 * DEVIATION


def test_min_snr_weights() -> None:
    steps = torch.tensor([0, 500, 999])
    weights = LINEAR.weights(steps, "mse_minsnr", 5.0)
    ratio = LINEAR.kept[0] / (1 - LINEAR.kept[0])
    assert weights.tolist() == pytest.approx([5 / ratio, 1, 1], rel=1e-5)
    assert LINEAR.weights(steps, "mse", 5.0).tolist() == [1, 1, 1]


def test_the_baseline_is_the_ideal_guess_of_its_own_distribution() -> None:
    chance = torch.Generator().manual_seed(1)
    clean = MEAN + DEVIATION * torch.randn(8, 3, 4000, generator=chance)
    noise = torch.randn(8, 3, 4000, generator=chance)
    steps = torch.arange(0, 1000, 125)
    mean, width = torch.full((3,), MEAN), torch.full((3,), DEVIATION)
    found = gaussian_noise_losses(LINEAR, mean, width, clean, steps, noise)
    signal, spread = LINEAR.factors(steps)
    expected = ((signal * DEVIATION) ** 2 / ((signal * DEVIATION) ** 2 + spread**2)).flatten()
    torch.testing.assert_close(found, expected, rtol=0.05, atol=1e-3)
