"""The point operators' index searches as Triton kernels, on NVIDIA and AMD GPUs.

In plain torch every farthest point is 15 kernels: 204,000 for a forward pass at the published
sizes. Here it is one kernel, a program for each cloud; a program for each centre finds its
neighbours, one for some points their nearest. The same indices as neighbours_torch's, to the last:
tested through Triton's interpreter on a CPU, and on an NVIDIA H200 by check_trainers.py. Products
are not fused with sums, which would round once less.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainers.pcdiff.neighbours_torch import FAR, tie_order

BLOCK = 4096
WARPS = 16
BALL_BLOCK = 1024
"""Points that a centre looks at together."""
NEAREST_BLOCK = 128
"""Points that look through the known ones together."""


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
    """Return (B, count) indices of farthest-point sampling of points (B, N, 3), first index 0."""
    batch, number, _ = points.shape
    order = tie_order(number, points.device)
    x, y, z = (column.contiguous() for column in points[:, order].unbind(-1))
    distance = torch.full((batch, number), FAR, device=points.device)
    chosen = torch.empty(batch, count, dtype=torch.int32, device=points.device)
    block = min(BLOCK, triton.next_power_of_2(number))
    settings = {"block": block, "num_warps": WARPS, "enable_fp_fusion": False}
    _farthest[(batch,)](x, y, z, distance, chosen, number, count, **settings)
    return order[chosen.long()]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _in_ball(  # type: ignore[no-untyped-def]
    x, y, z, from_x, from_y, from_z, found, numbers, limit, number, most: tl.constexpr,
    block: tl.constexpr
):  # fmt: skip
    centre, sample = tl.program_id(0), tl.program_id(1)
    row = sample * tl.num_programs(0) + centre
    x, y, z, found = (
        x + sample * number,
        y + sample * number,
        z + sample * number,
        found + row * most,
    )
    here_x, here_y, here_z = tl.load(from_x + row), tl.load(from_y + row), tl.load(from_z + row)
    square_limit = tl.load(limit)
    seen, start = 0, 0
    tl.store(found, 0)
    while (start < number) & (seen < most):
        at = start + tl.arange(0, block)
        inside = at < number
        apart_x = here_x - tl.load(x + at, mask=inside, other=0.0)
        apart_y = here_y - tl.load(y + at, mask=inside, other=0.0)
        apart_z = here_z - tl.load(z + at, mask=inside, other=0.0)
        square = apart_x * apart_x + apart_y * apart_y + apart_z * apart_z
        near = ((square < square_limit) & inside).to(tl.int32)
        slot = seen + tl.cumsum(near, 0) - 1
        tl.store(found + slot, at, mask=(near > 0) & (slot < most))
        seen += tl.sum(near, 0)
        start += block
    tl.store(numbers + row, tl.minimum(tl.maximum(seen, 1), most))


def ball_query(points: Tensor, centres: Tensor, radius: float, most: int) -> tuple[Tensor, Tensor]:
    """Return the points (B, N, 3) within radius of centres (B, M, 3), the first `most` by index.

    Returns a table (B * M, most) of flat indices into (B * N), and how many of each row are meant
    (B * M,). Not their list as neighbours_torch does: how long it is only the device knows.
    """
    batch, number, _ = points.shape
    device, width = points.device, centres.shape[1]
    limit = torch.full((1,), radius, dtype=torch.float32, device=device) ** 2
    found = torch.empty(batch, width, most, dtype=torch.int32, device=device)
    numbers = torch.empty(batch, width, dtype=torch.int32, device=device)
    columns = [column.contiguous() for column in (*points.unbind(-1), *centres.unbind(-1))]
    block = min(BALL_BLOCK, triton.next_power_of_2(number))
    settings = {"most": most, "block": block, "enable_fp_fusion": False}
    _in_ball[(width, batch)](*columns, found, numbers, limit, number, **settings)
    flat = found.long() + number * torch.arange(batch, device=device)[:, None, None]
    return flat.flatten(0, 1), numbers.flatten().long()


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _three_nearest(  # type: ignore[no-untyped-def]
    x, y, z, known_x, known_y, known_z, index, square, number, known, infinite, block: tl.constexpr
):  # fmt: skip
    sample = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < number
    here_x = tl.load(x + sample * number + at, mask=inside, other=0.0)
    here_y = tl.load(y + sample * number + at, mask=inside, other=0.0)
    here_z = tl.load(z + sample * number + at, mask=inside, other=0.0)
    first = tl.zeros((block,), tl.float32) + infinite
    second, third = first, first
    first_at = tl.zeros((block,), tl.int32)
    second_at, third_at = first_at, first_at
    for other in range(known):
        apart_x = here_x - tl.load(known_x + sample * known + other)
        apart_y = here_y - tl.load(known_y + sample * known + other)
        apart_z = here_z - tl.load(known_z + sample * known + other)
        apart = apart_x * apart_x + apart_y * apart_y + apart_z * apart_z
        # Of equal distances the first stays: only a lesser one moves it.
        before_first, before_second, before_third = apart < first, apart < second, apart < third
        third_at = tl.where(before_second, second_at, tl.where(before_third, other, third_at))
        third = tl.where(before_second, second, tl.where(before_third, apart, third))
        second_at = tl.where(before_first, first_at, tl.where(before_second, other, second_at))
        second = tl.where(before_first, first, tl.where(before_second, apart, second))
        first_at = tl.where(before_first, other, first_at)
        first = tl.where(before_first, apart, first)
    to = (sample * number + at) * 3
    tl.store(index + to, first_at, mask=inside)
    tl.store(index + to + 1, second_at, mask=inside)
    tl.store(index + to + 2, third_at, mask=inside)
    tl.store(square + to, first, mask=inside)
    tl.store(square + to + 1, second, mask=inside)
    tl.store(square + to + 2, third, mask=inside)


def three_nearest(points: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Return the three of known (B, M, 3) nearest to points (B, N, 3): indices and d², (B, N, 3).

    As neighbours_torch's: by distance, then by index.
    """
    batch, number, _ = points.shape
    index = torch.empty(batch, number, 3, dtype=torch.int32, device=points.device)
    square = torch.empty(batch, number, 3, device=points.device)
    columns = [column.contiguous() for column in (*points.unbind(-1), *known.unbind(-1))]
    programs = (triton.cdiv(number, NEAREST_BLOCK), batch)
    settings = {"block": NEAREST_BLOCK, "enable_fp_fusion": False}
    sizes = (number, known.shape[1], FAR)
    _three_nearest[programs](*columns, index, square, *sizes, **settings)
    return index.long(), square
