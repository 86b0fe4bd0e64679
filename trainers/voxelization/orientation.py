"""Which way the normals of a network point before its first step.

The solver divides by the size of the field at a corner, not by the field with its sign, so weights
that are drawn at random make skulls inside out as often as not. The loss has a wall between the
two: on the way from one to the other the corner's value passes zero and the field grows without
bound. Of our first fourteen seeds on made-up skulls seven were drawn inside out; after forty steps
five of these had seven times the others' loss, and of three whole trainings one never got over the
wall. Turned round before the first step, all fourteen train alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

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
    pairs: list[tuple[Tensor, Tensor]],
) -> Orientation:
    """Turn the normals of a network round where that fits the skulls better, and say how well.

    `loss_of` takes points, normals (both (1, 7N, 3)) and a target (1, X, Y, Z); pairs are inputs
    (1, N, 3) with their target.
    """
    drawn = turned = 0.0
    for inputs, target in pairs:
        points, normals = network(inputs)
        drawn += loss_of(points, normals, target).item() / len(pairs)
        turned += loss_of(points, -normals, target).item() / len(pairs)
    found = Orientation(drawn, turned)
    if found.is_turned:
        # The last layer is linear: its negative gives the negative of every normal.
        for parameter in network.decoder_normal.fc_out.parameters():
            parameter.neg_()
    return found
