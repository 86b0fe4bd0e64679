"""Data loaders that leave the trainer's random generators alone and outlive its stop signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trainers.common.stopping import ignore_stop_signals


def make_loader(
    dataset: Dataset[Any],
    batches: list[list[int]],
    device: torch.device,
    workers: int = 0,
    seed: int = 0,
    collate: Callable[[list[Any]], Any] | None = None,
) -> DataLoader[Any]:
    """Return a loader of these batches of indices, in this order; page-locked for a GPU."""
    return DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        worker_init_fn=ignore_stop_signals,
        collate_fn=collate,
        pin_memory=device.type == "cuda",
        prefetch_factor=4 if workers else None,
        # Its own generator: else making an iterator draws from the global one and moves it on.
        generator=torch.Generator().manual_seed(seed),
    )


def to_device(batch: Any, device: torch.device) -> Any:
    """Return a batch of mappings, lists and tensors with the tensors on the device."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [to_device(value, device) for value in batch]
    return batch
