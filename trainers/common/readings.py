"""A number on its way from a device, read without making the program wait for it."""

from __future__ import annotations

import torch
from torch import Tensor


class Reading:
    """A copy of one number (a tensor of no axes) that is under way to the host.

    It has arrived once anything later of the same stream was waited for, such as the gradient's
    norm, which a step has to know anyway: reading both then costs one wait. Untested on a GPU.
    """

    def __init__(self, number: Tensor) -> None:
        self._host = number.detach()
        if number.device.type != "cpu":
            self._host = torch.empty((), dtype=number.dtype, pin_memory=True)
            self._host.copy_(number.detach(), non_blocking=True)

    def value(self) -> float:
        """Return the number, which has to have arrived."""
        # NumPy shares the memory: nothing is asked of the device.
        return float(self._host.numpy())
