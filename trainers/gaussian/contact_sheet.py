"""A contact sheet to judge a decoder by: held-out photographs above their renders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from trainers.common.files import write_if_room

CELL, GAP, MARGIN, LINE = 160, 8, 76, 14
PAPER, INK = (250, 250, 250), (20, 20, 20)


def write_contact_sheet(
    path: Path,
    images: Tensor,
    renders: Tensor,
    names: Sequence[str],
    values: Sequence[float],
    title: str,
) -> None:
    """Write images (N,3,S,S) in [0,1] above their renders as a PNG with names and PSNR in dB."""
    count = len(names)
    width = MARGIN + count * (CELL + GAP)
    top = 2 * (LINE + GAP)
    sheet = Image.new("RGB", (width, top + 2 * (CELL + GAP) + LINE + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), title, fill=INK)
    for row, (label, pictures) in enumerate((("photograph", images), ("render", renders))):
        y = top + row * (CELL + GAP)
        draw.text((GAP, y + CELL // 2), label, fill=INK)
        for column in range(count):
            sheet.paste(to_picture(pictures[column]), (MARGIN + column * (CELL + GAP), y))
    for column, (name, value) in enumerate(zip(names, values, strict=True)):
        x = MARGIN + column * (CELL + GAP)
        draw.text((x, top - LINE), name[:26], fill=INK)
        draw.text((x, top + 2 * (CELL + GAP)), f"{value:.1f} dB", fill=INK)
    write_if_room(path, lambda file: sheet.save(file, format="PNG"))


def to_picture(image: Tensor) -> Image.Image:
    """Return an image (3,S,S) in [0,1] enlarged to CELL pixels, every original pixel visible."""
    return to_image(image).resize((CELL, CELL), Image.Resampling.NEAREST)


def to_image(image: Tensor) -> Image.Image:
    """Return an image (3,S,S) in [0,1] as a picture of its own size."""
    pixels = (
        (image.detach().cpu().clamp(0, 1).permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    )
    return Image.fromarray(pixels)
