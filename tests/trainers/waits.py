"""What in a step would make the host wait for a GPU, noted while the step runs on a CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

OPERATORS = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")
"""Operators that the host waits in: reading a number, and shapes that depend on values."""
METHODS = ("tolist", "cpu")
"""Reads of a whole tensor, which are no operators of their own where it lies on the CPU."""
SENDING = ((torch.Tensor, "to"), (torch.Tensor, "new_tensor"), (torch, "tensor"))
"""What waits where it copies to a GPU, unless it is told not to."""


class Waits(TorchDispatchMode):
    """Notes in `found`, in order, every read inside that would wait for a GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.found: list[str] = []
        self._counting = True
        for name in METHODS:
            monkeypatch.setattr(torch.Tensor, name, self._noted(name))
        monkeypatch.setattr(torch.Tensor, "__setitem__", self._noted_item(torch.Tensor.__setitem__))
        for where, name in SENDING:
            monkeypatch.setattr(where, name, self._noted_copy(getattr(where, name), name))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").split(".")[0]
        if self._counting and name in OPERATORS:
            self.found.append(name)
        return func(*args, **(kwargs or {}))

    def aside(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same work, of which nothing is noted."""

        def unseen(*args: Any, **kwargs: Any) -> Any:
            before, self._counting = self._counting, False
            try:
                return work(*args, **kwargs)
            finally:
                self._counting = before

        return unseen

    def _noted_copy(self, work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def noted(*given: Any, **more: Any) -> Any:
            told = [*given, *more.values()]
            sends = name == "new_tensor" or any(isinstance(word, torch.device) for word in told)
            # PyTorch's own are from a device to itself.
            ours = sys._getframe(1).f_globals["__name__"].startswith("trainers.")
            if self._counting and ours and sends and not more.get("non_blocking"):
                self.found.append(name)
            return work(*given, **more)

        return noted

    def _noted_item(self, put: Callable[..., None]) -> Callable[..., None]:
        # A number is written by a copy from the CPU, which waits (seen on an H200); fill_ does not.
        def noted(tensor: torch.Tensor, place: Any, value: Any) -> None:
            ours = sys._getframe(1).f_globals["__name__"].startswith("trainers.")
            if self._counting and ours and not isinstance(value, torch.Tensor):
                self.found.append("__setitem__")
            put(tensor, place, value)

        return noted

    def _noted(self, name: str) -> Callable[..., Any]:
        read = getattr(torch.Tensor, name)
        whole = self.aside(read)

        def noted(tensor: torch.Tensor, *given: Any) -> Any:
            if self._counting and tensor.numel() > 0:
                self.found.append(name)
            return whole(tensor, *given)

        return noted
