"""How every trainer ends a step, and lets the averaged weights be judged."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from trainers.common.ema import Ema
from trainers.common.precision import LEFT_OUT, Precision
from trainers.common.ranks import Ranks, add_over_ranks, compare_ranks, unwrapped
from trainers.common.reporter import Reporter


class Learning(Protocol):
    """What a run has of a network that learns; `model` is as wrap_model made it."""

    ranks: Ranks
    reporter: Reporter
    model: nn.Module
    optimiser: torch.optim.Optimizer
    precision: Precision
    ema: Ema | None


def finish_step(run: Learning, sums: Tensor, clip: float, step: int) -> tuple[float, bool]:
    """Step on the gradients that are there, average the weights and compare the ranks' first ones.

    Returns the gradient's norm before clipping to `clip`, and whether it was finite: else the step,
    the run's `step`-th, is left out and said to be. `sums` (N,) over all ranks are then in
    `run.precision.read`.
    """
    add_over_ranks(sums)
    parameters = unwrapped(run.model).parameters()
    norm, stepped = run.precision.step(run.optimiser, parameters, clip, sums)
    if stepped and run.ema:
        run.ema.update(run.model)
    if run.precision.is_first:
        compare_ranks(run.model, run.ranks, step)
    if not stepped:
        run.reporter.warn(f"step {step}: {LEFT_OUT}")
    return norm, stepped


def judged_weights(run: Learning) -> AbstractContextManager[None]:
    """Let the network have, inside, the weights that are judged and exported."""
    return run.ema.applied(run.model) if run.ema else nullcontext()
