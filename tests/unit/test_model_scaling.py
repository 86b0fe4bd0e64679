"""Batch size and learning rate when the number of GPUs changes, by the guides' own numbers."""

import msgspec
import pytest

from runners.model.parameters import with_values
from runners.model.scaling import batch_notes, batch_of, describe_batch, rescaled
from runners.model.spec import RunSpec, Scaling, ScalingRule
from runners.presets.parameter_input import build_parameter


def spec(bs: int = 8, lr: float = 2e-4, **scaling: object) -> RunSpec:
    """The point cloud guide's single-GPU run: batch 8 at 2e-4."""
    keys = {
        "batch": "bs",
        "learning_rate": "lr",
        "rule": "linear",
        "base_batch": 8,
        "base_rate": 2e-4,
    } | scaling
    parameters = tuple(build_parameter(name, value) for name, value in (("bs", bs), ("lr", lr)))
    return RunSpec(
        "p", "p", "torchrun", parameters=parameters, scaling=msgspec.convert(keys, Scaling)
    )


@pytest.mark.parametrize(
    ("gpus", "rule", "bs", "lr"),
    [
        (2, "linear", 16, 4e-4),
        (4, "linear", 32, 8e-4),
        (8, "linear", 64, 1.6e-3),
        (2, "sqrt", 16, 2.83e-4),
        (4, "sqrt", 32, 4e-4),
        (8, "sqrt", 64, 5.66e-4),
    ],
)
def test_the_guide_s_table(gpus: int, rule: ScalingRule, bs: int, lr: float) -> None:
    assert rescaled(spec(), 1, gpus, rule) == {"bs": bs, "lr": lr}


def test_the_7_plus_1_guide_s_rate() -> None:
    seven = spec(392, 1.22e-3, base_batch=64)
    assert (
        describe_batch(seven, 7)
        == "batch 392 = 56 each on 7 devices; lr 0.00122 (linear from 0.0002 at 64)"
    )
    assert rescaled(seven, 7, 4) == {"bs": 224, "lr": 7e-4}
    assert rescaled(seven, 7, 7) == {}


def test_a_rate_that_is_not_the_rule_s_is_said() -> None:
    assert "lr 0.0002 (linear from 0.0002 at 8 would be 0.0016)" in describe_batch(spec(64), 8)


def test_a_batch_of_each_device_stays_and_the_rate_follows_the_batch_in_all() -> None:
    assert rescaled(spec(per="device"), 1, 4) == {"lr": 8e-4}
    assert batch_of(spec(per="device"), 4).total == 32  # type: ignore[union-attr]


def test_a_program_that_scales_by_itself_is_not_scaled_twice() -> None:
    own = spec(8, 2e-4, rule="program")
    assert rescaled(own, 1, 8) == {"bs": 64}
    assert "lr 0.0016 (the program scales its 0.0002 by 8)" in describe_batch(
        with_values(own, {"bs": 64}), 8
    )


def test_what_a_person_has_set_stays() -> None:
    assert rescaled(with_values(spec(), {"lr": 1e-3}), 1, 8) == {"bs": 64}
    assert rescaled(with_values(spec(), {"bs": 10}), 1, 8) == {"lr": 2e-3}


def test_only_the_batch() -> None:
    assert rescaled(spec(), 1, 8, "none") == {"bs": 64}


def test_growth_warns_and_advises() -> None:
    assert len(batch_notes(spec(16, 4e-4), 2)) == 1
    assert (
        "warm the learning rate up over the first 5 epochs" in batch_notes(spec(64, 1.6e-3), 8)[1]
    )
    assert "above 10 × no scaling rule is to be trusted" in batch_notes(spec(88, 2.2e-3), 8)[1]
    assert "does not divide by 3 devices" in batch_notes(spec(8), 3)[1]


def test_without_a_word_on_scaling_nothing_is_said() -> None:
    silent = msgspec.structs.replace(spec(), scaling=None)
    assert (
        batch_of(silent, 8),
        rescaled(silent, 1, 8),
        describe_batch(silent, 8),
        batch_notes(silent, 8),
    ) == (
        None,
        {},
        "",
        (),
    )
