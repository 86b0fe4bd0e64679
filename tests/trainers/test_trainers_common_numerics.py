"""One step of an optimiser: rate, precision, accumulation, clipping, averaging."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainers.common import schedules  # noqa: E402
from trainers.common.ema import Ema  # noqa: E402
from trainers.common.errors import DivergedError, SettingsError  # noqa: E402
from trainers.common.precision import Precision, choose_precision, in_groups  # noqa: E402

pytestmark = pytest.mark.trainers
CPU = torch.device("cpu")


def test_the_rate_rises_peaks_and_falls_to_its_floor() -> None:
    for schedule in ("cosine", "linear"):
        rates = [schedules.rate_at(step, 100, 2.0, schedule, 9, 0.1) for step in range(100)]
        assert rates[0] == pytest.approx(0.2)
        assert rates[9] == max(rates) == 2.0
        assert all(a > b for a, b in itertools.pairwise(rates[9:]))
        assert 0.2 < rates[-1] < 0.25
        assert schedules.rate_at(100, 100, 2.0, schedule, 9, 0.1) == pytest.approx(0.2)
        assert schedules.rate_at(99, 100, 2.0, schedule) > 0
    assert schedules.rate_at(50, 99, 2.0, "cosine") != schedules.rate_at(50, 99, 2.0, "linear")
    assert {schedules.rate_at(step, 100, 2.0, "constant") for step in (0, 50, 99)} == {2.0}


def test_a_group_keeps_its_own_factor() -> None:
    one, two = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimiser = torch.optim.SGD([{"params": [one]}, {"params": [two], "rate_factor": 0.1}], lr=1.0)
    schedules.set_rate(optimiser, 0.5)
    assert [group["lr"] for group in optimiser.param_groups] == [0.5, 0.05]


@pytest.mark.parametrize(("rule", "rate"), [("none", 1e-3), ("linear", 4e-3), ("sqrt", 2e-3)])
def test_the_rate_follows_the_batch_and_says_how(rule: str, rate: float) -> None:
    found, told = schedules.scaled_rate(1e-3, rule, 32, 8)
    assert found == pytest.approx(rate)
    assert f"learning rate {rate:g}" in told and rule in told
    assert "effective batch 32" in schedules.batch_sentence(4, 4, 2)


def one_step(precision: Precision, groups: int, clip: float = 0.0) -> tuple[nn.Linear, float]:
    """A step of SGD over the same eight samples in so many pieces."""
    torch.manual_seed(3)
    net = nn.Linear(4, 1)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    pieces = list(x.split(8 // groups))
    stepped = False
    # A scaler begins too high and halves: its first steps may be dropped.
    while not stepped:
        for piece in pieces:
            with precision.autocast():
                loss = (net(piece) - 1).square().mean()
            precision.backward(loss / len(pieces))
        norm, stepped = precision.step(optimiser, net.parameters(), clip)
    assert all(parameter.grad is None for parameter in net.parameters())
    return net, norm


@pytest.mark.parametrize(("name", "tolerance"), [("fp32", 0.0), ("bf16", 2e-2), ("fp16", 2e-3)])
def test_every_precision_steps_nearly_alike(name: str, tolerance: float) -> None:
    whole, norm = one_step(Precision("fp32", CPU), 1)
    other, other_norm = one_step(Precision(name, CPU), 1)
    assert torch.allclose(whole.weight, other.weight, atol=tolerance, rtol=0)
    assert other_norm == pytest.approx(norm, rel=2e-2)
    if name != "fp32":
        # The same to the bit would mean that nothing was computed in the lower precision.
        assert not torch.equal(whole.weight, other.weight)


def test_four_small_batches_make_the_step_of_a_large_one() -> None:
    assert [len(group) for group in in_groups(range(7), 3)] == [3, 3, 1]
    whole, _ = one_step(Precision("fp32", CPU), 1)
    pieces, _ = one_step(Precision("fp32", CPU), 4)
    assert torch.allclose(whole.weight, pieces.weight, atol=1e-7)


def test_clipping_shortens_the_step_and_tells_the_norm_before() -> None:
    torch.manual_seed(3)
    begun = nn.Linear(4, 1)
    clipped, norm = one_step(Precision("fp32", CPU), 1, clip=0.01)
    moved = [
        (a - b).square().sum()
        for a, b in zip(clipped.parameters(), begun.parameters(), strict=True)
    ]
    assert norm > 0.1
    assert sum(moved).sqrt().item() == pytest.approx(0.1 * 0.01, rel=1e-3)


@pytest.mark.parametrize(("name", "patience"), [("fp32", 10), ("fp16", 26)])
def test_a_gradient_that_is_not_finite_is_dropped_and_many_fail(name: str, patience: int) -> None:
    precision, weight = Precision(name, CPU), nn.Parameter(torch.ones(2))
    optimiser = torch.optim.AdamW([weight], lr=0.1)
    for _ in range(patience - 1):
        precision.backward((weight * torch.inf).sum())
        assert precision.step(optimiser, [weight])[1] is False
    assert torch.equal(weight, torch.ones(2))
    precision.backward((weight * torch.nan).sum())
    with pytest.raises(DivergedError, match=f"no finite gradient in {patience} steps"):
        precision.step(optimiser, [weight])


def test_the_scaler_goes_on_where_it_was() -> None:
    first, weight = Precision("fp16", CPU), nn.Parameter(torch.ones(2))
    first.backward((weight * torch.inf).sum())
    first.step(torch.optim.SGD([weight], lr=0.1), [weight])
    second = Precision("fp16", CPU)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict() != Precision("fp16", CPU).state_dict()
    Precision("fp32", CPU).load_state_dict(first.state_dict())
    second.load_state_dict(Precision("fp32", CPU).state_dict())


def test_precision_is_what_the_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_precision("auto", CPU)[0] == "fp32"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert choose_precision("auto", CPU)[0] == "bf16"
    assert choose_precision("fp32", CPU)[0] == "fp32"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp8")
    with pytest.raises(SettingsError, match="fp8"):
        choose_precision("auto", CPU)


def test_averaged_weights_lag_are_applied_and_given_back() -> None:
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1))
    nn.init.zeros_(net[0].weight)
    ema, expected = Ema(net, 0.5), 0.0
    for update in range(1, 12):
        nn.init.constant_(net[0].weight, float(update))
        net[1].running_mean.fill_(update)
        ema.update(net)
        decay = min(0.5, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * update
    with ema.applied(net):
        assert net[0].weight.item() == pytest.approx(expected, rel=1e-6)
        assert net[1].running_mean.item() == 11
    assert net[0].weight.item() == 11
    other = Ema(net, 0.5)
    other.load_state_dict(ema.state_dict())
    assert other.updates == 11 and torch.equal(
        other.weights()["0.weight"], ema.weights()["0.weight"]
    )
