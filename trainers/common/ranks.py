"""Training in one process or in several, started by torchrun or by Accelerate."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainers.common.devices import choose_device
from trainers.common.errors import SharedError, StoppedError
from trainers.common.settings_parser import SettingsError

T = TypeVar("T")


class RanksDifferError(RuntimeError):
    """The processes of a run hold different weights; its text is one line for the user to read."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this one is, the device it computes on, and why that one."""

    rank: int
    world: int
    device: torch.device
    reason: str = ""

    @property
    def leads(self) -> bool:
        """Whether this process writes the files and prints the lines."""
        return self.rank == 0

    @property
    def here(self) -> int:
        """How many of the processes share this one's host."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", self.world))


def join_ranks(device: str) -> Ranks:
    """Join the processes that a launcher started, on device `auto`, `cpu` or `cuda`.

    torchrun and `accelerate launch --multi_gpu` set RANK, WORLD_SIZE and LOCAL_RANK; without them
    this process is alone. Raises SettingsError where a GPU is wanted or given and not seen.
    """
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen, reason = choose_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if world > 1 and not dist.is_initialized():
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        more = group_options(chosen, dist.init_process_group)
        dist.init_process_group(backend, timeout=timedelta(minutes=30), **more)
    return Ranks(rank, world, chosen, reason)


def group_options(device: torch.device, start: Callable[..., None]) -> dict[str, Any]:
    """Return what a process group is told of its device: the GPU, where `start` takes one.

    Without it NCCL guesses which GPU is this rank's, warns of it at the first barrier, and makes a
    context on another one where it guesses wrong (PyTorch's documentation of init_process_group;
    device_id came with 2.3).
    """
    takes = "device_id" in inspect.signature(start).parameters
    return {"device_id": device} if device.type == "cuda" and takes else {}


def leave_ranks() -> None:
    """Leave the process group, if there is one."""
    if grouped():
        dist.destroy_process_group()


def grouped() -> bool:
    """Return whether this process has others to talk to."""
    return dist.is_available() and dist.is_initialized()


def sum_over_ranks(values: list[float], device: torch.device) -> list[float]:
    """Return the elementwise sums over all ranks; every rank must pass equally many values."""
    if not grouped():
        return values
    sums = torch.tensor(values, dtype=torch.float64, device=device)
    add_over_ranks(sums)
    return [float(value) for value in sums.tolist()]


def add_over_ranks(sums: Tensor) -> None:
    """Add a tensor over all ranks, in place and without waiting for a GPU."""
    if grouped():
        dist.all_reduce(sums)


def gather_from_ranks(value: Any) -> list[Any]:
    """Return every rank's value, by rank; every rank must call this."""
    if not grouped():
        return [value]
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def from_leader(ranks: Ranks, action: Callable[[], T]) -> T:
    """Let rank 0 act and return its answer on every rank.

    Its SettingsError and StoppedError are raised on all.
    """
    answer: T | None = None
    trouble: Exception | None = None
    if ranks.leads:
        try:
            answer = action()
        except SettingsError as problem:
            trouble = SharedError(str(problem))
        except StoppedError as problem:
            trouble = problem
    answer, trouble = gather_from_ranks((answer, trouble))[0]
    if trouble is not None:
        raise trouble
    return answer


def wrap_model(model: nn.Module, ranks: Ranks, **options: Any) -> nn.Module:
    """Return the model for training: as it is in one process, else in DistributedDataParallel."""
    if ranks.world == 1:
        return model
    on_gpu = ranks.device.type == "cuda"
    return DistributedDataParallel(model, device_ids=[ranks.device] if on_gpu else None, **options)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model itself, without DistributedDataParallel's and torch.compile's shells."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


@contextmanager
def gradients_shared(model: nn.Module, now: bool) -> Iterator[None]:
    """Average gradients over ranks in the backward inside only if now; else they add up locally."""
    shell = getattr(model, "_orig_mod", model)
    if isinstance(shell, DistributedDataParallel) and not now:
        with shell.no_sync():
            yield
    else:
        yield


def compare_ranks(model: nn.Module, ranks: Ranks, step: int) -> None:
    """Raise RanksDifferError on every rank unless all of them hold the same parameters to the bit.

    Call it after the first step that changed the weights: a gradient that was not averaged, or a
    model begun from another seed, shows there. Buffers may differ and are not looked at.
    """
    if not grouped():
        return
    mine = parameter_digests(unwrapped(model).named_parameters())
    everyone = gather_from_ranks(mine)
    wrong = [rank for rank, digests in enumerate(everyone) if digests != everyone[0]]
    if wrong:
        first = everyone[0]
        other = everyone[wrong[0]]
        names = [name for name in first if other.get(name) != first[name]] or ["their names"]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise RanksDifferError(
            f"after step {step} the weights of rank(s) {', '.join(map(str, wrong))} differ from"
            f" rank 0's in {names[0]}{more}: a gradient was not averaged over the ranks, or they"
            " began from different weights"
        )


def parameter_digests(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """Return a digest of every named tensor's bytes."""
    digests = {}
    for name, tensor in parameters:
        content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        digests[name] = hashlib.blake2b(content.data, digest_size=12).hexdigest()
    return digests


def epoch_batches(
    count: int, batch_size: int, seed: int, epoch: int, rank: int, world: int, used: int = 0
) -> list[list[int]]:
    """Return this rank's batches of indices below count; seed and epoch alone decide the order.

    All ranks get equally many batches of equal sizes; where the last batch cannot be dealt out
    evenly, the first indices of the epoch are drawn again to fill it. `used` samples, counted over
    all ranks, are left away: that is how a run goes on inside an epoch, with any batch or world.
    """
    order = np.random.default_rng([seed, epoch]).permutation(count).tolist()
    rest = order[used:]
    while len(rest) % world:
        rest.extend(order[: world - len(rest) % world])
    width = batch_size * world
    return [rest[start : start + width][rank::world] for start in range(0, len(rest), width)]
