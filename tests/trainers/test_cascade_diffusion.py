"""The schedule, the targets and the sampler, on posteriors that are known."""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from diffusers import DDIMScheduler  # noqa: E402

from trainers.cascade.diffusion import VolumeDiffusion, seeded_noise  # noqa: E402

pytestmark = pytest.mark.trainers
CPU = torch.device("cpu")
MEAN, DEVIATION = 0.3, 0.4


def exact_denoiser(diffusion: VolumeDiffusion):
    """What a perfect model says where every voxel of x0 is normal with MEAN and DEVIATION."""

    def denoise(x, t):
        signal, spread = diffusion.scales(t)
        gain = signal * DEVIATION**2 / (signal**2 * DEVIATION**2 + spread**2)
        x0 = MEAN + gain * (x - signal * MEAN)
        eps = (x - signal * x0) / spread
        return signal * eps - spread * x0 if diffusion.v_prediction else eps

    return denoise


def test_the_last_step_has_no_signal_at_all() -> None:
    for steps in (10, 1000):
        alpha_bar = VolumeDiffusion(steps).alpha_bar
        assert alpha_bar[-1] == 0.0
        assert (alpha_bar[:-1] > 0).all() and (alpha_bar.diff() < 0).all()
        noise = torch.randn(1, 1, 2, 2, 2)
        x_t = VolumeDiffusion(steps).add_noise(
            torch.ones_like(noise), noise, torch.tensor([steps - 1])
        )
        assert torch.equal(x_t, noise)
    assert VolumeDiffusion(1000, v_prediction=False).alpha_bar[-1] > 0


@pytest.mark.parametrize("v_prediction", [True, False])
def test_the_target_tells_x0_and_eps_back(v_prediction: bool) -> None:
    diffusion = VolumeDiffusion(50, v_prediction)
    x0, noise, t = (
        torch.rand(4, 1, 3, 3, 3),
        torch.randn(4, 1, 3, 3, 3),
        torch.tensor([0, 10, 30, 45]),
    )
    x_t = diffusion.add_noise(x0, noise, t)
    found = diffusion.split(diffusion.target(x0, noise, t), x_t, t)
    torch.testing.assert_close(found[0], x0, atol=2e-4, rtol=0)
    torch.testing.assert_close(found[1], noise, atol=2e-4, rtol=0)


def test_targets_and_steps_are_diffusers_own() -> None:
    diffusion = VolumeDiffusion(100)
    theirs = DDIMScheduler(
        100, beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction", clip_sample=False,
        rescale_betas_zero_snr=True, timestep_spacing="trailing",
    )  # fmt: skip
    x0, noise, t = torch.rand(3, 1, 2, 2, 2), torch.randn(3, 1, 2, 2, 2), torch.tensor([3, 50, 99])
    torch.testing.assert_close(diffusion.target(x0, noise, t), theirs.get_velocity(x0, noise, t))
    torch.testing.assert_close(diffusion.add_noise(x0, noise, t), theirs.add_noise(x0, noise, t))
    theirs.set_timesteps(20)
    assert [now for now, _ in diffusion.steps(20)] == theirs.timesteps.tolist()
    x = torch.randn(2, 1, 2, 2, 2)
    denoise = exact_denoiser(diffusion)
    ours = diffusion.sample(denoise, x, 20, limits=None)
    for now in theirs.timesteps:
        x = theirs.step(denoise(x, now.repeat(2)), int(now), x).prev_sample
    torch.testing.assert_close(ours, x, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("v_prediction", "eta", "count"), [(True, 0.0, 100), (True, 1.0, 1000), (False, 0.0, 100)]
)
def test_samples_have_mean_and_deviation_of_the_posterior(
    v_prediction: bool, eta: float, count: int
) -> None:
    diffusion = VolumeDiffusion(1000, v_prediction)
    shape = (1, 1, 32, 32, 32)
    noise = seeded_noise(shape, CPU, 1)
    fresh = (seeded_noise(shape, CPU, 2, turn) for turn in range(1000))
    found = diffusion.sample(exact_denoiser(diffusion), noise, count, eta, fresh, limits=None)
    assert found.mean().item() == pytest.approx(MEAN, rel=0.02)
    assert found.std().item() == pytest.approx(DEVIATION, rel=0.02)


def test_taking_v_for_eps_would_show() -> None:
    """What upstream's trainers did: the deviation is gone."""
    diffusion = VolumeDiffusion(1000)
    right = exact_denoiser(diffusion)
    diffusion_wrong = VolumeDiffusion(1000)
    wrong = lambda output, x, t: (diffusion.split(output, x, t)[0], output)  # noqa: E731
    diffusion_wrong.split = wrong  # type: ignore[method-assign]
    noise = seeded_noise((1, 1, 16, 16, 16), CPU, 1)
    found = diffusion_wrong.sample(right, noise, 100, limits=None)
    assert abs(found.std().item() / DEVIATION - 1) > 0.2


@pytest.mark.parametrize("count", [1, 7, 30, 1000, 5000])
def test_a_sampler_of_any_length_begins_at_pure_noise_and_ends_without(count: int) -> None:
    steps = VolumeDiffusion(1000).steps(count)
    assert len(steps) == min(count, 1000) and steps[0][0] == 999 and steps[-1][1] == -1
    assert all(now > later for now, later in steps)
    assert all(first[1] == second[0] for first, second in pairwise(steps))


def test_noise_follows_from_the_seed_alone() -> None:
    first = seeded_noise((2, 3), CPU, 42, 1, 0, 7)
    assert torch.equal(first, seeded_noise((2, 3), CPU, 42, 1, 0, 7))
    others = [
        seeded_noise((2, 3), CPU, *seed)
        for seed in ((42, 1, 0, 8), (42, 1, 1, 7), (43, 1, 0, 7), (42, 1, 7))
    ]
    assert not any(torch.equal(first, other) for other in others)
