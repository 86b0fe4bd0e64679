"""The learning rate of an epoch, a pure function of its number, so that a resume cannot lose it."""

from __future__ import annotations

import argparse
import math


def rate_of_epoch(epoch: int, rate: float, settings: argparse.Namespace) -> float:
    """Return the rate of an epoch counted from 0, `rate` being that after the warm-up.

    It rises in a line from its `lr_warmup_start_factor` over `lr_warmup_epochs`, then falls by
    `lr_gamma` an epoch, or along half a cosine over `cosine_T_max` epochs to `cosine_eta_min`; 0
    stands for all epochs that are left.
    """
    warm, start = settings.lr_warmup_epochs, settings.lr_warmup_start_factor
    if epoch < warm:
        return rate * (start + (1 - start) * epoch / warm)
    since = epoch - warm
    if settings.lr_scheduler == "exponential":
        return float(rate * settings.lr_gamma**since)
    least, most = settings.cosine_eta_min, settings.cosine_T_max or max(settings.niter - warm, 1)
    # Beyond its period PyTorch's schedule would rise again.
    done = min(since / most, 1.0)
    return float(least + (rate - least) * (1 + math.cos(math.pi * done)) / 2)
