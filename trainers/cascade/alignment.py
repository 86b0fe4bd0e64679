"""Whether a patient's X-rays and CT belong together, and how the CT would have to lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import torch
from torch import Tensor

from trainers.cascade.config import Config
from trainers.cascade.geometry import line_integrals
from trainers.cascade.patients import fit
from trainers.cascade.projector import attenuation, project

BETTER = 0.1
"""How much more X-rays correlate with a flipped CT where it is called the wrong way round; or
"""
CLEARLY = 0.5
"""they lack at most this share of what they lacked of a correlation of 1, if that is more than"""
LEAST = 0.005
FLIPS = ("front-back", "top-bottom", "left-right")
"""What a flip along D, H and W is called."""


def misaligned(item: dict[str, Tensor], config: Config, signed: bool) -> tuple[float, str]:
    """Return how little an item's X-rays correlate with its CT's projections, and a better turn.

    The turn is empty unless the CT fits clearly better so. Uncalibrated X-rays may be negatives:
    without signed, the sign does not count.
    """
    size = item["volume"].shape[-1]
    truth = line_integrals(
        item["volume"][None], config.views, item["spacing"][None], config.geometry
    )[0]
    seen = fit(item["xrays"][None], (size, size))[0]
    density = attenuation(item["volume"][0])

    def misfit(turned: Tensor) -> float:
        # Parallel rays whatever the geometry is: 48 cone beams would take minutes.
        shown = [project(turned, view) for view in config.views]
        return 1 - sum(likeness(seen, shown, signed)) / len(shown)

    now = misfit(density)
    found = [(round(misfit(turned), 3), name) for name, turned in other_turns(density)]
    less, name = min(found, key=lambda entry: entry[0])
    better = less < CLEARLY * now and now - less > LEAST
    return min(likeness(seen, truth, signed)), name if better or now - less > BETTER else ""


def likeness(seen: Tensor, truth: Sequence[Tensor] | Tensor, signed: bool) -> list[float]:
    """Return the correlation of each image with the projection that it ought to be."""
    found = [correlation(a, b) for a, b in zip(seen, truth, strict=True)]
    return found if signed else [abs(number) for number in found]


def other_turns(volume: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the 47 other ways a volume (D, H, W) can lie, with their names, the simplest first."""
    for order in permutations(range(3)):
        for flipped in sorted(product((False, True), repeat=3), key=sum):
            axes = [axis for axis in range(3) if flipped[axis]]
            names = " and ".join(FLIPS[axis] for axis in axes)
            if order == (0, 1, 2):
                name = "data.flip_drrs_vertical" if axes == [1] else f"a {names} flip"
            else:
                name = f"the CT's axes in the order {', '.join('DHW'[axis] for axis in order)}"
                name += f" and a {names} flip" if axes else ""
            if order != (0, 1, 2) or axes:
                yield name, volume.permute(order).flip(axes)


def correlation(first: Tensor, second: Tensor) -> float:
    """Return Pearson's correlation of two images."""
    both = torch.stack((first.flatten(), second.flatten()))
    return float(torch.corrcoef(both)[0, 1].nan_to_num())
