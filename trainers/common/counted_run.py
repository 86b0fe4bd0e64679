"""How many steps a run has, for trainers whose settings say batch_size, accumulate and epochs."""

from __future__ import annotations

import argparse
import math
from abc import ABC, abstractmethod
from collections.abc import Sized

from trainers.common.ranks import Ranks


class CountedRun(ABC):
    """A run whose epochs are over what it learns from, each sample once."""

    settings: argparse.Namespace
    ranks: Ranks

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
