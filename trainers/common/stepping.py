"""How every trainer ends a step, and lets the averaged weights be judged."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import Tensor

from trainers.common.counted_run import TrainingRun
from trainers.common.precision import LEFT_OUT
from trainers.common.ranks import add_over_ranks, compare_ranks, unwrapped


def finish_step(run: TrainingRun, sums: Tensor, clip: float, step: int) -> tuple[float, bool]:
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


def judged_weights(run: TrainingRun) -> AbstractContextManager[None]:
    """Let the network have, inside, the weights that are judged and exported."""
    return run.ema.applied(run.model) if run.ema else nullcontext()
