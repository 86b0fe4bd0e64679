"""Random generators: seeded, a seed for each process where it should differ, saved and put back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from trainers.common.ranks import Ranks, grouped


def seed_everything(seed: int, rank: int | None = None) -> None:
    """Start Python's, NumPy's and PyTorch's generators from a seed; from a rank's own if given.

    Without a rank all processes draw alike, as they must for the first weights.
    """
    own = seed if rank is None else seed + 1_000_003 * (rank + 1)
    random.seed(own)
    np.random.seed(own % 2**32)
    torch.manual_seed(own)


def sample_generator(seed: int, epoch: int, index: int) -> np.random.Generator:
    """Return a generator for one sample of one epoch, whoever loads it and whenever.

    Augmentation that draws from it is the same in any worker, on any rank and after a resume.
    """
    return np.random.default_rng([seed, epoch, index])


def random_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and PyTorch's generators, as weights_only loads them.

    Alone, all GPUs' generators are taken; with other ranks only the own GPU's, as they take theirs.
    """
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    cuda = None
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        cuda = [torch.cuda.get_rng_state()] if grouped() else torch.cuda.get_rng_state_all()
    return {
        "python": random.getstate(),
        "numpy": (
            name,
            torch.from_numpy(np.array(keys, dtype=np.int64)),
            position,
            has_gauss,
            cached,
        ),
        "torch": torch.get_rng_state(),
        "cuda": cuda,
    }


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Put the generators back into a state that random_state returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    cuda = state["cuda"]
    if cuda is None or not torch.cuda.is_available():
        return
    if len(cuda) == 1 or grouped():
        torch.cuda.set_rng_state(cuda[0])
    else:
        for device in range(min(len(cuda), torch.cuda.device_count())):
            torch.cuda.set_rng_state(cuda[device], device)


def restore_rank_state(states: list[Mapping[str, Any]], ranks: Ranks) -> str:
    """Put this rank's generators back; return a warning if another world size wrote them."""
    if len(states) == ranks.world:
        restore_random_state(states[ranks.rank])
        return ""
    return (
        f"{len(states)} process(es) wrote the checkpoint and {ranks.world} go on: the order of"
        " samples stays, random draws inside the processes begin from new seeds"
    )
