"""Farthest-point sampling in one Triton kernel, a program for each cloud, on NVIDIA and AMD GPUs.

In plain torch every centre is 15 kernels: 204,000 for a forward pass at the published sizes. Tested
against the exact indices through Triton's interpreter on a CPU, not yet on hardware.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainers.pcdiff.neighbours_torch import FAR, tie_order

BLOCK = 4096
WARPS = 16


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _farthest(  # type: ignore[no-untyped-def]
    x, y, z, distance, chosen, number, count, block: tl.constexpr
):  # fmt: skip
    cloud = tl.program_id(0)
    x, y, z, distance = (
        x + cloud * number,
        y + cloud * number,
        z + cloud * number,
        distance + cloud * number,
    )
    last = 0
    tl.store(chosen + cloud * count, last)
    for step in range(1, count):
        from_x, from_y, from_z = tl.load(x + last), tl.load(y + last), tl.load(z + last)
        best, place = -1.0, 0
        for start in range(0, number, block):
            at = start + tl.arange(0, block)
            inside = at < number
            apart_x = tl.load(x + at, mask=inside, other=0.0) - from_x
            apart_y = tl.load(y + at, mask=inside, other=0.0) - from_y
            apart_z = tl.load(z + at, mask=inside, other=0.0) - from_z
            square = apart_x * apart_x + apart_y * apart_y + apart_z * apart_z
            near = tl.minimum(tl.load(distance + at, mask=inside, other=-1.0), square)
            tl.store(distance + at, near, mask=inside)
            greatest = tl.max(near, 0)
            # Of equal distances the first is taken, within a block and over blocks.
            place = tl.where(greatest > best, start + tl.argmax(near, 0), place)
            best = tl.maximum(best, greatest)
        last = place
        tl.store(chosen + cloud * count + step, last)


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Return (B, count) indices of farthest-point sampling of points (B, N, 3), first index 0.

    The same as neighbours_torch's: products are not fused with sums, which would round once less.
    """
    batch, number, _ = points.shape
    order = tie_order(number, points.device)
    x, y, z = (column.contiguous() for column in points[:, order].unbind(-1))
    distance = torch.full((batch, number), FAR, device=points.device)
    chosen = torch.empty(batch, count, dtype=torch.int32, device=points.device)
    block = min(BLOCK, triton.next_power_of_2(number))
    settings = {"block": block, "num_warps": WARPS, "enable_fp_fusion": False}
    _farthest[(batch,)](x, y, z, distance, chosen, number, count, **settings)
    return order[chosen.long()]
