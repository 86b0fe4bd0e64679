"""An exponential moving average of a model's weights, for validation and for use after training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from trainers.common.ranks import unwrapped


class Ema:
    """Averages parameters; buffers are copied. Early on it averages less: min(decay, (1+n)/(10+n)).

    The early rule is TensorFlow's ExponentialMovingAverage with num_updates.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self._shadow = {n: t.detach().clone() for n, t in unwrapped(model).state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after a step."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        learnt = {name for name, _ in unwrapped(model).named_parameters()}
        now = unwrapped(model).state_dict()
        averaged = [n for n in now if n in learnt and now[n].is_floating_point()]
        if averaged:
            torch._foreach_lerp_(
                [self._shadow[n] for n in averaged], [now[n] for n in averaged], 1 - decay
            )
        for name in now.keys() - set(averaged):
            self._shadow[name].copy_(now[name])

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Let the model have the averaged weights inside, and its own again afterwards."""
        inner = unwrapped(model)
        own = {name: tensor.detach().clone() for name, tensor in inner.state_dict().items()}
        inner.load_state_dict(self._shadow)
        try:
            yield
        finally:
            inner.load_state_dict(own)

    def restart(self, model: nn.Module) -> None:
        """Begin the average anew with the weights that the model has now."""
        self.updates = 0
        for name, tensor in unwrapped(model).state_dict().items():
            self._shadow[name].copy_(tensor)

    def weights(self) -> dict[str, Tensor]:
        """Return the averaged weights as a state dict."""
        return dict(self._shadow)

    def state_dict(self) -> dict[str, Any]:
        """Return weights, decay and count of updates."""
        return {"weights": self.weights(), "decay": self.decay, "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state; raises KeyError where its names are another model's."""
        for name, tensor in self._shadow.items():
            tensor.copy_(state["weights"][name])
        self.updates = int(state["updates"])
