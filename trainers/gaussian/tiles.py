"""The renderer's inner part in batched PyTorch, for any device, without waiting for the device.

The image is cut into square tiles, each tile is given the Gaussians that reach it, and tiles are
drawn in chunks of at most `PAIRS_PER_CHUNK` pairs of a pixel and a Gaussian, fullest tiles first.
On a GPU, while it learns, the host never asks how full the tiles are: it uses what an earlier call
found, copied over in the background, and counts what that leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trainers.gaussian.projection import (
    OPAQUE,
    REACH,
    Camera,
    Gaussians,
    project,
    splat_table,
    tile_boxes,
)

PAIRS_PER_CHUNK = 1 << 23
"""Pairs of a pixel and a Gaussian that are in memory at once."""
HEADROOM = 1.25
"""How much fuller than last time tiles may be on a GPU before the farthest Gaussians are left out.
"""
COLUMNS = 10


class FillMemory:
    """How full tiles were in earlier calls of a shape, read without waiting for the device.

    `dear` says of counts whether asking for them now would make the host wait.
    """

    def __init__(self, dear: Callable[[Tensor], bool] = lambda counts: counts.is_cuda) -> None:
        self._dear = dear
        self._pending: dict[tuple[int, ...], tuple[Tensor, Tensor, Any]] = {}
        self._known: dict[tuple[int, ...], tuple[list[int], Tensor]] = {}
        self._left_out: Tensor | None = None

    def widths(self, key: tuple[int, ...], counts: Tensor, limit: int) -> list[int]:
        """Return how many members to give each tile, by falling fullness, at most `limit`.

        The counts themselves where nothing is learnt, so that what is judged depends on nothing
        that was drawn before, and where they cost nothing. Else an earlier call's with headroom
        (`limit` at first), and what they leave out is counted.
        """
        if not (torch.is_grad_enabled() and self._dear(counts)):
            return [int(count) for count in counts.tolist()]
        pending = self._pending.get(key)
        if pending is not None and (pending[2] is None or pending[2].query()):
            host, device, _ = self._pending.pop(key)
            roomy = [min(limit, int(count * HEADROOM) + 8) for count in host.tolist()]
            self._known[key] = roomy, ((device * HEADROOM).long() + 8).clamp(max=limit)
        if key not in self._pending:
            self._pending[key] = (*_copied(counts), _event(counts))
        if key not in self._known:
            return [limit] * len(counts)
        widths, given = self._known[key]
        missing = (counts - given).clamp(min=0).sum()
        self._left_out = missing if self._left_out is None else self._left_out + missing
        return widths

    def take_left_out(self) -> int:
        """Return how many pairs of a tile and a Gaussian were left out since this was last asked.

        It waits for the device.
        """
        found, self._left_out = self._left_out, None
        return 0 if found is None else int(found)


def _copied(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return counts on the host, perhaps only later, and as they are."""
    if not counts.is_cuda:
        return counts, counts
    host = torch.empty(counts.shape, dtype=counts.dtype, pin_memory=True)
    host.copy_(counts, non_blocking=True)
    return host, counts


def _event(counts: Tensor) -> Any:
    """Return what answers `query()` with whether a GPU has come this far; None for a CPU."""
    if not counts.is_cuda:
        return None
    event = torch.cuda.Event()
    event.record()
    return event


MEMORY = FillMemory()


def draw_in_tiles(gaussians: Gaussians, camera: Camera) -> Tensor:
    """Draw B sets of Gaussians as (B,5,S,S): red, green, blue, distance, coverage."""
    ellipses, width = project(gaussians, camera), camera.width
    table = splat_table(gaussians, ellipses)
    tile = 8 if width <= 128 else 16
    across = -(-width // tile)
    images, count = table.shape[:2]
    order, boxes = tile_boxes(ellipses, width, tile)
    counts = tile_counts(boxes, across)
    ranked = torch.argsort(counts, descending=True, stable=True)
    widths = MEMORY.widths((images, count, width, tile), counts[ranked], count)
    nothing = table.new_zeros(1, COLUMNS)
    rows = torch.cat((table.flatten(0, 1), nothing))
    members = []
    for first, last in chunk_bounds(widths, tile * tile, count):
        longest = max(widths[first], 1)
        members.append((first, last, members_of(ranked[first:last], boxes, order, across, longest)))
    compose: Callable[..., Tensor] = Compositing.apply
    drawn = [
        compose(rows, index, corners(ranked[first:last], across, tile), tile)
        for first, last, index in members
    ]
    unsorted = torch.cat(drawn)[torch.argsort(ranked)]
    canvas = unsorted.view(images, across, across, tile, tile, 5).permute(0, 5, 1, 3, 2, 4)
    return canvas.reshape(images, 5, across * tile, across * tile)[:, :, :width, :width]


def tile_counts(boxes: Tensor, across: int) -> Tensor:
    """Return how many boxes (B,N,4) reach each tile, as (B·across²,) int64: a summed-area table."""
    images = len(boxes)
    x0, x1, y0, y1 = boxes.long().unbind(-1)
    side = across + 1
    ends = torch.zeros(images, side * side, dtype=torch.long, device=boxes.device)
    drawn = (x1 >= x0).long()
    for row, column, sign in ((y0, x0, 1), (y0, x1 + 1, -1), (y1 + 1, x0, -1), (y1 + 1, x1 + 1, 1)):
        ends.scatter_add_(1, row * side + column, sign * drawn)
    table = ends.view(images, side, side).cumsum(1).cumsum(2)
    return table[:, :across, :across].reshape(-1)


def chunk_bounds(widths: list[int], pixels: int, count: int) -> list[tuple[int, int]]:
    """Return where to cut tiles, sorted by falling fullness, into chunks of bounded memory.

    A chunk holds at most PAIRS_PER_CHUNK pairs, and at most as many decisions which Gaussian is a
    member.
    """
    bounds, first = [], 0
    while first < len(widths):
        cost = max(max(widths[first], 1) * pixels, count)
        last = min(len(widths), first + max(1, PAIRS_PER_CHUNK // cost))
        bounds.append((first, last))
        first = last
    return bounds


@torch.no_grad()
def members_of(tiles: Tensor, boxes: Tensor, order: Tensor, across: int, longest: int) -> Tensor:
    """Return the first `longest` Gaussians of tiles (R,), front to back, as rows (R,longest).

    They are rows of the table. Places without a Gaussian name the table's last row, which draws
    nothing.
    """
    images, count = order.shape
    image = torch.div(tiles, across * across, rounding_mode="floor")
    place = tiles % (across * across)
    row, column = (
        torch.div(place, across, rounding_mode="floor").unsqueeze(1),
        (place % across).unsqueeze(1),
    )
    x0, x1, y0, y1 = (part[image] for part in boxes.unbind(-1))
    hit = (x0 <= column) & (column <= x1) & (y0 <= row) & (row <= y1)
    slot = hit.cumsum(1, dtype=torch.int32).long() - 1
    slot = torch.where(hit & (slot < longest), slot, longest)
    members = torch.full(
        (len(tiles), longest + 1), images * count, dtype=torch.int32, device=tiles.device
    )
    members.scatter_(1, slot, (order[image] + (image * count).unsqueeze(1)).to(torch.int32))
    return members[:, :longest].contiguous()


def corners(tiles: Tensor, across: int, tile: int) -> Tensor:
    """Return the middles (R,2) of tiles in pixels."""
    place = tiles % (across * across)
    column, row = place % across, torch.div(place, across, rounding_mode="floor")
    return torch.stack((column, row), dim=-1) * tile + tile / 2


def alphas(splats: Tensor, centres: Tensor, tile: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return bare opacities, the same capped (R,M,P), and the basis (6,P), for splats (R,M,10).

    The exponent is a quadratic polynomial of the pixel's place in its tile: one product for all
    pairs.
    """
    grid = torch.arange(tile, device=splats.device, dtype=splats.dtype) + 0.5 - tile / 2
    v, u = torch.meshgrid(grid, grid, indexing="ij")
    basis = torch.stack((u * u, u * v, v * v, u, v, torch.ones_like(u))).flatten(1)
    x, y = (splats[..., :2] - centres.unsqueeze(1).to(splats.dtype)).unbind(-1)
    a, b, c, opacity = splats[..., 2:6].unbind(-1)
    constant = -0.5 * (a * x * x + 2 * b * x * y + c * y * y)
    terms = (-0.5 * a, -b, -0.5 * c, a * x + b * y, b * x + c * y, constant)
    power = torch.stack(terms, dim=-1) @ basis
    bare = torch.threshold_(power, -0.5 * REACH**2, -1e4).exp_().mul_(opacity.unsqueeze(-1))
    return bare, bare.clamp(max=OPAQUE), basis


class Compositing(torch.autograd.Function):
    """Tiles drawn front to back; the backward pass keeps only the table and the members."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, members: Tensor, centres: Tensor, tile: int) -> Tensor:
        """Return (R,P,5): red, green, blue, distance, coverage."""
        splats = table[members.long()]
        _, alpha, _ = alphas(splats, centres, tile)
        clear = 1 - alpha
        weight = alpha.mul_(clear.cumprod(1).div_(clear))
        seen = torch.cat((splats[..., 6:], torch.ones_like(splats[..., :1])), dim=-1)
        drawn = weight.transpose(1, 2) @ seen
        ctx.save_for_backward(table, members, centres, drawn)
        ctx.tile = tile
        return drawn

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of the table, all pairs of the chunk at once."""
        table, members, centres, drawn = ctx.saved_tensors
        arriving = gradients[0]
        splats = table[members.long()]
        bare, alpha, basis = alphas(splats, centres, ctx.tile)
        clear = 1 - alpha
        before = clear.cumprod(1).div_(clear)
        weight = alpha * before
        seen = torch.cat((splats[..., 6:], torch.ones_like(splats[..., :1])), dim=-1)
        pull = seen @ arriving.transpose(1, 2)
        of_seen = weight @ arriving
        hidden = (drawn * arriving).sum(-1).unsqueeze(1) - weight.mul_(pull).cumsum(1)
        slope = (
            pull.mul_(before).sub_(hidden.div_(clear)).mul_(bare).masked_fill_(bare >= OPAQUE, 0)
        )
        moments = slope @ basis.t()
        pairs = torch.cat((of_polynomial(moments, splats, centres), of_seen[..., :4]), dim=-1)
        return sum_rows(pairs, members, len(table)), None, None, None


def of_polynomial(moments: Tensor, splats: Tensor, centres: Tensor) -> Tensor:
    """Return the gradients (R,M,6) of centre, conic and opacity from the slope's moments.

    The moments are (R,M,6).
    """
    uu, uv, vv, u, v, total = moments.unbind(-1)
    x, y = (splats[..., :2] - centres.unsqueeze(1).to(splats.dtype)).unbind(-1)
    a, b, c, opacity = splats[..., 2:6].unbind(-1)
    sx, sy = u - x * total, v - y * total
    sxx = uu - 2 * x * u + x * x * total
    sxy = uv - x * v - y * u + x * y * total
    syy = vv - 2 * y * v + y * y * total
    of_opacity = total / opacity.clamp(min=torch.finfo(opacity.dtype).tiny ** 0.5)
    return torch.stack(
        (a * sx + b * sy, c * sy + b * sx, -0.5 * sxx, -sxy, -0.5 * syy, of_opacity), dim=-1
    )


def sum_rows(pairs: Tensor, members: Tensor, count: int) -> Tensor:
    """Return the sums (count,10) of pairs (R,M,10) by member, added in a fixed order.

    An embedding's gradient is what has such an order.
    """
    index = members.long()
    if pairs.device.type == "cpu":
        summed: Tensor = torch.ops.aten.embedding_dense_backward(pairs, index, count, -1, False)
        return summed
    return pairs.new_zeros(count, COLUMNS).index_add_(0, index.flatten(), pairs.flatten(0, 1))
