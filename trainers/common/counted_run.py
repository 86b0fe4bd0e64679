"""What every run is made of, and how many steps it has.

The latter for trainers whose settings say batch_size, accumulate and epochs.
"""

from __future__ import annotations

import argparse
import math
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass

import torch
from torch import nn

from trainers.common.checkpoint import CheckpointFolder
from trainers.common.ema import Ema
from trainers.common.precision import Precision
from trainers.common.ranks import Ranks
from trainers.common.reporter import Reporter
from trainers.common.stopping import StopRequest


@dataclass
class TrainingRun:
    """What the functions of every loop share; `model` is the network as wrap_model made it."""

    settings: argparse.Namespace
    ranks: Ranks
    stop: StopRequest
    reporter: Reporter
    folder: CheckpointFolder
    model: nn.Module
    optimiser: torch.optim.Optimizer
    precision: Precision
    ema: Ema | None


class CountedRun(TrainingRun, ABC):
    """A run whose epochs are over what it learns from, each sample once."""

    @property
    @abstractmethod
    def training(self) -> Sized:
        """What is learnt from."""

    @property
    def epochs(self) -> int:
        """Epochs of the whole run."""
        return int(self.settings.epochs)

    @property
    def batch(self) -> int:
        """Samples of one step, over all devices and accumulated batches."""
        return int(self.settings.batch_size * self.settings.accumulate * self.ranks.world)

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of a whole epoch."""
        return math.ceil(len(self.training) / self.batch)

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        return self.epochs * self.steps_per_epoch
