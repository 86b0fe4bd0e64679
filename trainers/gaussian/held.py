"""Photographs that all fit on a GPU: read once, kept there, and batches taken from them there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trainers.common.bar import bar
from trainers.common.kept_items import size_of
from trainers.common.loading import make_loader, sent, to_device
from trainers.gaussian.photographs import PhotographSet

SHARE = 0.25
"""Of a GPU's free memory that photographs may take; the rest is the step's."""


def room_on(device: torch.device) -> int:
    """Return how many bytes of photographs a device may hold; a CPU keeps them elsewhere: 0."""
    if device.type != "cuda":
        return 0
    free, _ = torch.cuda.mem_get_info(device)
    return int(SHARE * free)


class HeldPhotographs:
    """Photographs of one size on a device; `size` is 0 before any were read."""

    def __init__(self) -> None:
        self.size, self._device = 0, torch.device("cpu")
        self._names: list[str] = []
        self._parts: dict[str, Tensor] = {}

    def read(
        self, photographs: PhotographSet, device: torch.device, workers: int, shown: bool
    ) -> bool:
        """Read all photographs unless they are held in their present size; return whether they fit.

        They are read by so many workers, with a bar where `shown`.
        """
        if self.size == photographs.size:
            return True
        item = photographs[0]
        self._parts = {}
        if size_of(item) * len(photographs) > room_on(device):
            return False
        places = [[place] for place in range(len(photographs))]
        loader = make_loader(photographs, places, device, workers)
        items = [
            to_device(loaded, device)
            for loaded in bar(loader, "reading photographs", len(places), shown=shown)
        ]
        tensors = [name for name, part in items[0].items() if isinstance(part, Tensor)]
        self._parts = {name: torch.cat([item[name] for item in items]) for name in tensors}
        self._names = [name for item in items for name in item["name"]]
        self.size, self._device = photographs.size, device
        return True

    def batches(self, batches: list[list[int]]) -> Iterator[dict[str, Any]]:
        """Yield batches of the photographs at these places, as a loader does."""
        for places in batches:
            index = sent(torch.tensor(places), self._device)
            batch: dict[str, Any] = {name: part[index] for name, part in self._parts.items()}
            yield batch | {"name": [self._names[place] for place in places]}
