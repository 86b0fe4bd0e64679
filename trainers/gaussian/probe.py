"""The largest batch that fits: single steps with batches that double until memory is short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainers.common.devices import peak_memory
from trainers.common.failures import is_out_of_memory
from trainers.common.loading import to_device
from trainers.gaussian.hfts import phase_of
from trainers.gaussian.options import savings
from trainers.gaussian.photographs import PhotographSet
from trainers.gaussian.run import GaussianRun

MOST = 4096
CPU_LIMIT = 8


def probe_batch(
    run: GaussianRun, batch_loss: Callable[[GaussianRun, dict[str, Any]], tuple[Tensor, Any]]
) -> int:
    """Print each batch that was tried with its peak memory, and the largest that fits; return 0.

    Batches double to the first that does not fit, at full resolution with all Gaussians. On a CPU,
    where memory runs out for the whole machine, it ends at 8. The GPU branch is untested on
    hardware here.
    """
    settings, device, write = run.settings, run.ranks.device, run.reporter.write
    run.position.epoch = settings.epochs - 1
    phase = phase_of(
        run.position.epoch,
        settings.epochs,
        settings.image_size,
        run.decoder.slots,
        savings(settings),
    )
    images = PhotographSet(run.collection.training, run.collection, phase.resolution)
    single = {name: value for name, value in images[0].items() if isinstance(value, Tensor)}
    size, fits = 1, 0
    while size <= (MOST if device.type == "cuda" else CPU_LIMIT):
        try:
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            batch = {
                name: value.expand(size, *value.shape).contiguous()
                for name, value in single.items()
            }
            loss, _ = batch_loss(run, to_device(batch, device))
            run.precision.backward(loss)
            run.optimiser.zero_grad(set_to_none=True)
        except RuntimeError as problem:
            if not is_out_of_memory(problem):
                raise
            write(f"batch {size:>5}  does not fit")
            break
        fits = size
        write(f"batch {size:>5}  peak {peak_memory(device) / 2**30:.2f} GiB")
        size *= 2
    limit = "" if device.type == "cuda" else "; larger ones are not tried on a CPU"
    write(f"batch size   {fits} fits at {settings.image_size} px{limit}")
    run.reporter.finish()
    return 0
