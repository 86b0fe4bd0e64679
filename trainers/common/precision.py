"""Mixed precision, loss scaling and clipping of one optimiser step.

bf16 has fp32's exponents and needs no scaler; fp16 does (Micikevicius et al., arXiv 1710.03740).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from trainers.common.arithmetic import conv3d_trouble_here
from trainers.common.errors import DivergedError, SettingsError

T = TypeVar("T")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
LEFT_OUT = "the gradient is not finite; the step is left out"
PATIENCE = 10
"""Steps in a row without a finite gradient after which a run has failed."""
_HALVINGS = 16  # a new scaler begins at 2**16 and may halve this often before it is at 1


def choose_precision(asked: str, device: torch.device, volumes: bool = False) -> tuple[str, str]:
    """Return fp32, bf16 or fp16, and why it is no faster one, if so.

    `auto` is what Accelerate was launched with, else the device's best; with `volumes`, fp32 where
    3-D convolutions do not work in that. Raises SettingsError where the one asked for does not work
    there.
    """
    name = _chosen(asked, device)
    trouble = conv3d_trouble_here(name, device) if volumes else ""
    if trouble and asked != "auto":
        raise SettingsError(f"precision {name}: {trouble}; or use fp32")
    return ("fp32", trouble) if trouble else (name, "")


def _chosen(asked: str, device: torch.device) -> str:
    if asked == "auto":
        launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
        if launched not in ("no", "", "bf16", "fp16"):
            raise SettingsError(
                f"accelerate's mixed precision {launched} is not offered: bf16 or fp16"
            )
        asked = launched if launched in ("bf16", "fp16") else "auto"
    has_bf16 = device.type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
    if asked == "auto" and device.type == "cpu":
        return "fp32"
    if asked == "auto":
        return "bf16" if has_bf16 else "fp16"
    if asked == "bf16" and not has_bf16:
        raise SettingsError(f"--precision bf16: {device} has no bf16; use fp16 or fp32")
    return asked


class Precision:
    """Autocast, loss scaling, clipping and stepping in one of fp32, bf16 and fp16."""

    def __init__(self, asked: str, device: torch.device, volumes: bool = False) -> None:
        self.device = device
        self.name, self.trouble = choose_precision(asked, device, volumes)
        self._scaler = torch.amp.GradScaler(device.type, enabled=self.name == "fp16")
        self.lost_in_a_row = 0
        self.taken = 0
        self.read: list[float] = []

    @property
    def is_first(self) -> bool:
        """Whether the last step was the first that this process took: fp16 drops some before it."""
        return self.taken == 1 and self.lost_in_a_row == 0

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context for the forward pass and the loss."""
        dtype = torch.float16 if self.name == "fp16" else torch.bfloat16
        return torch.autocast(self.device.type, dtype=dtype, enabled=self.name != "fp32")

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss, scaled for fp16."""
        scaled: Tensor = self._scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def step(
        self,
        optimiser: torch.optim.Optimizer,
        parameters: Iterable[nn.Parameter],
        clip: float = 0.0,
        beside: Tensor | None = None,
    ) -> tuple[float, bool]:
        """Clip to norm `clip` (0: not at all), step and clear; return norm and whether it stepped.

        Numbers `beside` (N,) are read with the norm, so that a GPU is waited for once, into `read`.
        A gradient that is not finite is dropped. With DDP all ranks hold the same gradients, and
        decide alike. Raises DivergedError after PATIENCE drops in a row (more while fp16 scales).
        """
        self._scaler.unscale_(optimiser)
        measured = nn.utils.clip_grad_norm_(list(parameters), clip or math.inf).double().view(1)
        if beside is not None:
            measured = torch.cat((measured, beside.double()))
        norm, *self.read = measured.tolist()
        stepped = math.isfinite(norm)
        if stepped:
            # Not by the scaler, which would read once more whether a gradient is finite.
            optimiser.step()
            self.taken += 1
        self._scaler.update()
        optimiser.zero_grad(set_to_none=True)
        self.lost_in_a_row = 0 if stepped else self.lost_in_a_row + 1
        limit = PATIENCE + (_HALVINGS if self.name == "fp16" else 0)
        if self.lost_in_a_row >= limit:
            raise DivergedError(
                f"no finite gradient in {limit} steps in a row: lower the learning rate,"
                " or use --precision fp32"
            )
        return norm, stepped

    def state_dict(self) -> dict[str, Any]:
        """Return the scaler's state and the count of dropped steps, in plain types."""
        return {"scaler": self._scaler.state_dict(), "lost_in_a_row": self.lost_in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state; one of another precision leaves the scaler as it is."""
        if state["scaler"] and self._scaler.is_enabled():
            self._scaler.load_state_dict(state["scaler"])
        self.lost_in_a_row = int(state["lost_in_a_row"])


def in_groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last one shorter: the batches that one step accumulates."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group
