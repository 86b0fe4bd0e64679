"""Learning rates as pure functions of the step, and the rule that fits them to the batch.

Scaling rules: linear, Goyal et al. 2017 (arXiv 1706.02677); square root, Krizhevsky 2014
(arXiv 1404.5997), usual for Adam (Malladi et al. 2022, arXiv 2205.10287).
"""

from __future__ import annotations

import math

import torch

SCHEDULES = ("cosine", "linear", "constant")
RATE_RULES = ("none", "linear", "sqrt")


def rate_at(
    step: int,
    steps: int,
    highest: float,
    schedule: str = "cosine",
    warmup: int = 0,
    floor: float = 0.0,
) -> float:
    """Return the rate for a step counted from 0 of `steps`.

    It rises linearly over `warmup` steps, is `highest` in the step after them, and falls towards
    `floor * highest`, which it would reach one step after the last, along half a cosine or a line,
    or stays (`constant`). No step has rate 0.
    """
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    if schedule == "constant":
        return highest
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    fall = 0.5 * (1 + math.cos(math.pi * done)) if schedule == "cosine" else 1 - done
    return highest * (floor + (1 - floor) * fall)


def steps_taken(epoch: int, used: int, batch: int, steps_per_epoch: int) -> tuple[int, int]:
    """Return the steps that `epoch` whole epochs and `used` samples are, and those in the epoch.

    A schedule goes by them, so that a run which goes on with another batch, on another number of
    devices or with other data is as far in it as in its epochs.
    """
    inside = -(-used // batch)
    return epoch * steps_per_epoch + inside, inside


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter group the rate, times the group's own `rate_factor` where it has one."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)


def batch_sentence(batch_size: int, world: int, accumulate: int) -> str:
    """Return `effective batch 16: 4 per device x 2 devices x 2 accumulated`."""
    total = batch_size * world * accumulate
    return (
        f"effective batch {total}: {batch_size} per device x {world} device(s)"
        f" x {accumulate} accumulated"
    )


def scaled_rate(base_rate: float, rule: str, batch: int, base_batch: int) -> tuple[float, str]:
    """Return the rate for an effective batch, and the sentence that explains it.

    `none` keeps the base rate; `linear` and `sqrt` multiply it by (the root of) batch / base batch.
    """
    if rule == "none":
        return base_rate, f"learning rate {base_rate:g}, whatever the batch (rule: none)"
    ratio = batch / base_batch
    factor = ratio if rule == "linear" else math.sqrt(ratio)
    rate = base_rate * factor
    return rate, (
        f"learning rate {rate:g} = {base_rate:g} x {factor:.4g}"
        f" ({rule} rule: effective batch {batch} over base batch {base_batch})"
    )
