"""What a dataset has read, kept in memory for all loader workers together."""

from __future__ import annotations

import mmap
from collections.abc import Mapping

import torch
from torch import Tensor


class KeptItems:
    """Tensors of the first items of a dataset, `count` or what fits into `room` bytes of them.

    Whichever process reads an item first keeps it for all that were forked since this was made, in
    memory that has no file, so that a small /dev/shm does not limit it.
    """

    def __init__(self, count: int, room: int, like: Mapping[str, Tensor]) -> None:
        fitting = min(count, room // size_of(like))
        self._parts = {name: _shared(fitting, part) for name, part in like.items()}
        self._whole = _shared(fitting, torch.zeros((), dtype=torch.bool))
        self.bytes = fitting * size_of(like)

    def find(self, index: int) -> dict[str, Tensor] | None:
        """Return an item, not to be changed; None where it is not kept."""
        if index >= len(self._whole) or not self._whole[index]:
            return None
        return {name: part[index] for name, part in self._parts.items()}

    def keep(self, index: int, item: Mapping[str, Tensor]) -> None:
        """Keep an item where it is one of the first and made of what they are."""
        if index >= len(self._whole) or item.keys() != self._parts.keys():
            return
        places = {name: part[index] for name, part in self._parts.items()}
        if all(
            places[name].dtype == part.dtype and places[name].shape == part.shape
            for name, part in item.items()
        ):
            for name, part in item.items():
                places[name].copy_(part)
            # Last: what is said to be whole is read by others.
            self._whole[index] = True


def size_of(item: Mapping[str, object]) -> int:
    """Return the bytes of an item's tensors."""
    return sum(part.nbytes for part in item.values() if isinstance(part, Tensor))


def _shared(count: int, like: Tensor) -> Tensor:
    if count * like.nbytes == 0:
        return torch.empty(count, *like.shape, dtype=like.dtype)
    memory = mmap.mmap(-1, count * like.nbytes)
    flat = torch.frombuffer(memory, dtype=like.dtype, count=count * like.numel())
    return flat.view(count, *like.shape)
