"""Which way the normals of a network point before its first step.

The solver divides by the size of the field at a corner, not by the field with its sign, so weights
that are drawn at random make skulls inside out as often as not. The loss has a wall between the
two: on the way from one to the other the corner's value passes zero and the field grows without
bound. Of our first fourteen seeds on made-up skulls seven were drawn inside out; after forty steps
five of these had seven times the others' loss, and of three whole trainings one never got over the
wall. Turned round before the first step, all fourteen train alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from trainers.common.loading import to_device
from trainers.voxelization.data import target_of
from trainers.voxelization.model import Voxelizer

LOOKED_AT = 4
"""Pairs that decide: a network's normals point one way for all skulls."""


class Orientation(NamedTuple):
    """The loss of the weights as drawn and with every normal turned round."""

    drawn: float
    turned: float

    @property
    def is_turned(self) -> bool:
        """Whether the normals were turned round: only for less loss, so never for NaN."""
        return self.turned < self.drawn


@torch.no_grad()
def turn_normals(
    network: Voxelizer,
    loss_of: Callable[[Tensor, Tensor, Tensor], Tensor],
    pairs: Dataset[dict[str, Any]],
    grid: tuple[int, int, int],
) -> Orientation:
    """Turn the normals of a network round where that fits the skulls better, and say how well.

    `loss_of` takes points, normals (both (1, 7N, 3)) and a target (1, X, Y, Z); of the pairs, items
    with `inputs` (N, 3) and a target on the grid, a few are looked at. Every rank finds the same.
    """
    device = next(network.parameters()).device
    count = len(pairs)  # type: ignore[arg-type]
    chosen = range(0, count, math.ceil(count / LOOKED_AT))
    drawn = turned = 0.0
    for index in chosen:
        item = to_device(pairs[index], device)
        points, normals = network(item["inputs"][None])
        target = target_of(item, grid)[None]
        drawn += loss_of(points, normals, target).item() / len(chosen)
        turned += loss_of(points, -normals, target).item() / len(chosen)
    found = Orientation(drawn, turned)
    if found.is_turned:
        # The last layer is linear: its negative gives the negative of every normal.
        for parameter in network.decoder_normal.fc_out.parameters():
            parameter.neg_()
    return found
