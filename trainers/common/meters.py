"""What a training loop costs: samples a second, time spent waiting for data, peak memory."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch

from trainers.common.devices import peak_memory

T = TypeVar("T")

GAUGES = (
    "samples_per_second",
    "samples_per_second_per_device",
    "data_wait_share",
    "peak_memory_bytes",
)
"""The names of what a meter measures."""


def mean_of(total: float, count: float) -> float:
    """Return a mean; NaN where nothing was counted, as in an epoch all of whose steps were left."""
    return total / count if count else math.nan


class ThroughputMeter:
    """Measures one epoch of one process; a new one begins with every epoch."""

    def __init__(self, device: torch.device, world: int) -> None:
        self.device, self.world = device, world
        self._begun = time.monotonic()
        self._waited = 0.0
        self.samples = 0

    def waiting(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield the loader's batches and count the time until each of them is there."""
        iterator = iter(loader)
        while True:
            begun = time.monotonic()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            finally:
                self._waited += time.monotonic() - begun
            yield batch

    def count(self, samples: int) -> None:
        """Note that this process has finished so many samples more."""
        self.samples += samples

    @property
    def seconds(self) -> float:
        """Seconds since the meter began."""
        return time.monotonic() - self._begun

    def values(self) -> dict[str, float]:
        """Return samples a second in all and, of several devices, each; waiting share; peak bytes.

        All ranks do equally much, so rank 0's figures stand for each of them. Of an epoch that had
        no step left there is no speed.
        """
        seconds = max(self.seconds, 1e-9)
        measured = (
            self.samples * self.world / seconds,
            self.samples / seconds,
            min(1.0, self._waited / seconds),
            float(peak_memory(self.device)),
        )
        values = dict(zip(GAUGES, measured, strict=True))
        if self.world == 1:
            del values["samples_per_second_per_device"]  # it would be the first one once more
        return values if self.samples else {GAUGES[-1]: values[GAUGES[-1]]}
