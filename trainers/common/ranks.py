"""Training in one process or in several started by torchrun."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from trainers.common.settings import SettingsError


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this one is, and the device it computes on."""

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes the files and prints the lines."""
        return self.rank == 0


def join_ranks(device: str) -> Ranks:
    """Join the processes torchrun started (RANK, WORLD_SIZE, LOCAL_RANK) on device `auto`, `cpu` or `cuda`.

    Raises SettingsError where CUDA (which ROCm's PyTorch is called too) is asked for and not there.
    """
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cuda" and visible == 0:
        raise SettingsError("--device cuda: PyTorch sees no GPU here")
    if device == "cpu" or visible == 0:
        chosen = torch.device("cpu")
    elif local_rank >= visible:
        raise SettingsError(f"process {local_rank} of this host has no GPU of its own: PyTorch sees {visible}")
    else:
        chosen = torch.device("cuda", local_rank)
        torch.cuda.set_device(chosen)
    if world > 1:
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=30))
    return Ranks(rank, world, chosen)


def leave_ranks() -> None:
    """Leave the process group, if there is one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def sum_over_ranks(values: list[float], device: torch.device) -> list[float]:
    """Return the elementwise sums over all ranks; every rank must pass equally many values."""
    if not (dist.is_available() and dist.is_initialized()):
        return values
    sums = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    return [float(value) for value in sums.tolist()]


def gather_from_ranks(value: Any) -> list[Any]:
    """Return every rank's value, by rank; every rank must call this."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def epoch_batches(count: int, batch_size: int, seed: int, epoch: int, rank: int, world: int) -> list[list[int]]:
    """Return this rank's batches of indices below count, in an order that follows from seed and epoch alone.

    All ranks get equally many batches of equal sizes; where the last batch cannot be dealt out evenly, the
    first indices of the epoch are drawn again to fill it.
    """
    order = np.random.default_rng([seed, epoch]).permutation(count).tolist()
    while len(order) % world:
        order.extend(order[: world - len(order) % world])
    width = batch_size * world
    return [order[start : start + width][rank::world] for start in range(0, len(order), width)]
