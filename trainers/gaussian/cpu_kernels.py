"""The renderer's inner loops for CPUs, compiled by numba and kept on disk once compiled.

Every tile of pixels is one task; all threads together give the same bits whatever their number.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
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

FASTER = {"contract", "arcp", "nsz", "reassoc"}
"""What the compiler may assume about floating point; not the absence of NaN."""


def draw_compiled(gaussians: Gaussians, camera: Camera) -> Tensor:
    """Draw B sets of Gaussians as (B,5,S,S): red, green, blue, distance, coverage."""
    ellipses, width = project(gaussians, camera), camera.width
    table = splat_table(gaussians, ellipses)
    tile = 8 if width <= 256 else 16
    order, boxes = tile_boxes(ellipses, width, tile)
    use_threads_of_torch()
    starts, members = list_members(boxes.numpy(), order.numpy(), -(-width // tile))
    draw = CompiledDrawing.apply
    canvas: Tensor = draw(table, starts, members, width, tile)  # type: ignore[no-untyped-call]
    return canvas


def use_threads_of_torch() -> None:
    """Have numba compute with as many threads as torch."""
    threads = torch.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    # Numba's pool, when it starts, tells OpenMP its own size, which torch would use from then on:
    # with one thread asked for and one core free, both would mostly wait for each other.
    torch.set_num_threads(threads)


class CompiledDrawing(torch.autograd.Function):
    """Compositing front to back with its own gradient."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, starts: Any, members: Any, width: int, tile: int
    ) -> Tensor:
        """Draw the members of every tile."""
        canvas = torch.zeros((len(table), 5, width, width), dtype=table.dtype)
        limits = np.array([-0.5 * REACH**2, OPAQUE], dtype=canvas.numpy().dtype)
        rows = table.detach().contiguous()
        draw_forward(rows.numpy(), starts, members, limits, tile, canvas.numpy())
        ctx.save_for_backward(rows, canvas)
        ctx.lists = (starts, members, limits, tile)
        return canvas

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Return the gradient of the table."""
        rows, canvas = ctx.saved_tensors
        starts, members, limits, tile = ctx.lists
        pairs = np.zeros((len(members), 10), dtype=rows.numpy().dtype)
        arriving = gradients[0].contiguous().numpy()
        draw_backward(rows.numpy(), starts, members, limits, tile, canvas.numpy(), arriving, pairs)
        result = torch.zeros_like(rows)
        sum_pairs(starts, members, pairs, result.numpy())
        return result, None, None, None, None


@njit(cache=True, parallel=True, nogil=True)
def list_members(boxes: Any, order: Any, across: int) -> Any:  # pragma: no cover - compiled
    """Return where each tile's members start (B·tiles+1), and all members, front to back."""
    images, count = order.shape
    tiles = across * across
    filled = np.zeros(images * tiles, dtype=np.int64)
    for image in prange(images):
        for n in range(count):
            for row in range(boxes[image, n, 2], boxes[image, n, 3] + 1):
                for column in range(boxes[image, n, 0], boxes[image, n, 1] + 1):
                    filled[image * tiles + row * across + column] += 1
    starts = np.zeros(images * tiles + 1, dtype=np.int64)
    for place in range(images * tiles):
        starts[place + 1] = starts[place] + filled[place]
    members = np.empty(starts[-1], dtype=np.int32)
    for image in prange(images):
        following = starts[image * tiles : (image + 1) * tiles].copy()
        for n in range(count):
            for row in range(boxes[image, n, 2], boxes[image, n, 3] + 1):
                for column in range(boxes[image, n, 0], boxes[image, n, 1] + 1):
                    place = row * across + column
                    members[following[place]] = order[image, n]
                    following[place] += 1
    return starts, members


@njit(cache=True, inline="always", fastmath=FASTER)
def falloffs(
    splat: Any, x0: Any, y0: Any, across: Any, down: Any, least: Any, out: Any
) -> None:  # pragma: no cover - compiled
    """Fill out (P,) with exp(-d²/2) of a splat over a tile's pixels, 0 beyond its reach.

    The exponent lies in [-4.5, 0]: a Taylor sum of a sixteenth of it, to the power of 16, is exact
    to 2e-11 and, unlike a call of exp, something the compiler can do for eight pixels at once.
    """
    number = out.dtype.type
    unit, part = number(1.0), number(1.0 / 16.0)
    a, b, c = number(-0.5) * splat[2], -splat[3], number(-0.5) * splat[4]
    c2, c3, c4, c5 = number(1 / 2), number(1 / 6), number(1 / 24), number(1 / 120)
    c6, c7, c8, c9 = number(1 / 720), number(1 / 5040), number(1 / 40320), number(1 / 362880)
    for i in range(len(out)):
        dx, dy = across[i] - x0, down[i] - y0
        power = (a * dx + b * dy) * dx + c * dy * dy
        t = max(power, least) * part
        e = unit + t * (
            unit
            + t * (c2 + t * (c3 + t * (c4 + t * (c5 + t * (c6 + t * (c7 + t * (c8 + t * c9)))))))
        )
        e *= e
        e *= e
        e *= e
        e *= e
        out[i] = e if power >= least else number(0.0)


@njit(cache=True, inline="always")
def pixel_offsets(tile: int, across: Any, down: Any) -> None:  # pragma: no cover - compiled
    """Fill two arrays (P,) with the middles of a tile's pixels, from its corner."""
    for i in range(tile * tile):
        across[i] = i % tile + 0.5
        down[i] = i // tile + 0.5


@njit(cache=True, parallel=True, nogil=True, fastmath=FASTER)
def draw_forward(
    table: Any, starts: Any, members: Any, limits: Any, tile: int, canvas: Any
) -> None:  # pragma: no cover - compiled
    """Fill canvas (B,5,S,S), whose last channel is the coverage."""
    size = canvas.shape[2]
    rows = (size + tile - 1) // tile
    pixels = tile * tile
    for task in prange(len(starts) - 1):
        image, place = task // (rows * rows), task % (rows * rows)
        top, left = (place // rows) * tile, (place % rows) * tile
        across, down = np.empty(pixels, table.dtype), np.empty(pixels, table.dtype)
        pixel_offsets(tile, across, down)
        through, alpha = np.ones(pixels, table.dtype), np.empty(pixels, table.dtype)
        drawn = np.zeros((5, pixels), table.dtype)
        for index in range(starts[task], starts[task + 1]):
            splat = table[image, members[index]]
            falloffs(splat, splat[0] - left, splat[1] - top, across, down, limits[0], alpha)
            opacity, most = splat[5], limits[1]
            for i in range(pixels):
                shade = min(opacity * alpha[i], most)
                weight = shade * through[i]
                alpha[i] = weight
                through[i] -= weight
            for channel in range(4):
                row, value = drawn[channel], splat[6 + channel]
                for i in range(pixels):
                    row[i] += alpha[i] * value
        for i in range(pixels):  # an array's difference costs two seconds more to compile
            drawn[4, i] = 1 - through[i]
        for y in range(top, min(top + tile, size)):
            for x in range(left, min(left + tile, size)):
                for channel in range(5):
                    canvas[image, channel, y, x] = drawn[channel, (y - top) * tile + x - left]


@njit(cache=True, inline="always", fastmath=FASTER)
def read_tile(
    canvas: Any, arriving: Any, top: int, left: int, tile: int, wanted: Any, behind: Any
) -> None:  # pragma: no cover - compiled
    """Fill wanted (5,P) with a tile of the arriving gradient, behind (P,) with its product.

    The gradient and the canvas it is multiplied with are (5,S,S).
    """
    size = canvas.shape[2]
    for y in range(top, min(top + tile, size)):
        for x in range(left, min(left + tile, size)):
            i = (y - top) * tile + x - left
            for channel in range(5):
                wanted[channel, i] = arriving[channel, y, x]
                behind[i] += arriving[channel, y, x] * canvas[channel, y, x]


@njit(cache=True, inline="always", fastmath=FASTER)
def go_past(
    splat: Any,
    most: Any,
    wanted: Any,
    falloff: Any,
    through: Any,
    behind: Any,
    weight: Any,
    slope: Any,
) -> None:  # pragma: no cover - compiled
    """Fill a splat's weight (P,) and the slope (P,) of the loss over its exponent.

    The slope is divided by the opacity; the splat is taken off `through` and `behind`. What a
    Gaussian hides is what the drawn pixel holds less what was drawn up to it.
    """
    number = slope.dtype.type
    unit, none = number(1.0), number(0.0)
    w0, w1, w2, w3, w4 = wanted[0], wanted[1], wanted[2], wanted[3], wanted[4]
    red, green, blue, depth = splat[6], splat[7], splat[8], splat[9]
    for i in range(len(slope)):
        slope[i] = w0[i] * red + w1[i] * green + w2[i] * blue + w3[i] * depth + w4[i]
    opacity = splat[5]
    for i in range(len(slope)):
        bare = opacity * falloff[i]
        shade = min(bare, most)
        before = through[i]
        share = shade * before
        hidden = behind[i] - share * slope[i]
        found = before * slope[i] - hidden / (unit - shade)
        weight[i] = share
        behind[i] = hidden
        through[i] = before - share
        slope[i] = found * falloff[i] if bare < most else none


@njit(cache=True, inline="always", fastmath=FASTER)
def write_gradient(
    splat: Any,
    x0: Any,
    y0: Any,
    across: Any,
    down: Any,
    slope: Any,
    weight: Any,
    wanted: Any,
    row: Any,
) -> None:  # pragma: no cover - compiled
    """Fill row (10,) with the gradient of a splat at (x0, y0) of its tile."""
    number = slope.dtype.type
    none = number(0.0)
    for channel in range(4):
        asked, total = wanted[channel], none
        for i in range(len(slope)):
            total += weight[i] * asked[i]
        row[6 + channel] = total
    s0, sx, sy, sxx, sxy, syy = none, none, none, none, none, none
    for i in range(len(slope)):
        dx, dy, s = across[i] - x0, down[i] - y0, slope[i]
        s0 += s
        sx += s * dx
        sy += s * dy
        sxx += s * dx * dx
        sxy += s * dx * dy
        syy += s * dy * dy
    opacity = splat[5]
    row[0] = opacity * (splat[2] * sx + splat[3] * sy)
    row[1] = opacity * (splat[4] * sy + splat[3] * sx)
    row[2] = number(-0.5) * opacity * sxx
    row[3] = -opacity * sxy
    row[4] = number(-0.5) * opacity * syy
    row[5] = s0


@njit(cache=True, parallel=True, nogil=True, fastmath=FASTER)
def draw_backward(
    table: Any,
    starts: Any,
    members: Any,
    limits: Any,
    tile: int,
    canvas: Any,
    arriving: Any,
    pairs: Any,
) -> None:  # pragma: no cover - compiled
    """Fill pairs (members,10) with the gradient of every member of every tile."""
    size = canvas.shape[2]
    rows = (size + tile - 1) // tile
    pixels = tile * tile
    for task in prange(len(starts) - 1):
        image, place = task // (rows * rows), task % (rows * rows)
        top, left = (place // rows) * tile, (place % rows) * tile
        across, down = np.empty(pixels, table.dtype), np.empty(pixels, table.dtype)
        pixel_offsets(tile, across, down)
        through, falloff = np.ones(pixels, table.dtype), np.empty(pixels, table.dtype)
        slope, weight = np.empty(pixels, table.dtype), np.empty(pixels, table.dtype)
        behind, wanted = np.zeros(pixels, table.dtype), np.zeros((5, pixels), table.dtype)
        read_tile(canvas[image], arriving[image], top, left, tile, wanted, behind)
        for index in range(starts[task], starts[task + 1]):
            splat = table[image, members[index]]
            x0, y0 = splat[0] - left, splat[1] - top
            falloffs(splat, x0, y0, across, down, limits[0], falloff)
            go_past(splat, limits[1], wanted, falloff, through, behind, weight, slope)
            write_gradient(splat, x0, y0, across, down, slope, weight, wanted, pairs[index])


@njit(cache=True, parallel=True, nogil=True)
def sum_pairs(
    starts: Any, members: Any, pairs: Any, result: Any
) -> None:  # pragma: no cover - compiled
    """Add the gradients of all tiles up in a fixed order."""
    tiles = (len(starts) - 1) // result.shape[0]
    for image in prange(result.shape[0]):
        for index in range(starts[image * tiles], starts[(image + 1) * tiles]):
            for column in range(10):
                result[image, members[index], column] += pairs[index, column]
