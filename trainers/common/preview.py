"""Pictures of arrays: what goes into a model beside what it should answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from trainers.common.files import write_if_room

_GAP, _LINE, _LABEL, _CELL = 6, 14, 110, 160
_PAPER, _INK = (250, 250, 250), (20, 20, 20)


def write_preview(
    path: Path, rows: Mapping[str, Sequence[Any]], title: str = "", captions: Sequence[str] = ()
) -> Path:
    """Write rows of arrays as a PNG, a row for each name and a column for each sample.

    An array is (H,W), (3,H,W) or (H,W,3), a tensor too. Colours are taken as in [0,1] if they are,
    anything else is stretched between its least and greatest value, which the label then names.
    """
    columns = max((len(row) for row in rows.values()), default=0)
    top = _LINE + 2 * _GAP
    width = _LABEL + columns * (_CELL + _GAP) + _GAP
    height = top + len(rows) * (_CELL + _GAP) + _LINE + _GAP
    sheet = Image.new("RGB", (max(width, 8 * len(title)), height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_GAP, _GAP), title, fill=_INK)
    for place, (name, arrays) in enumerate(rows.items()):
        y = top + place * (_CELL + _GAP)
        least, most = _limits(arrays)
        shown = "" if (least, most) == (0.0, 1.0) else f"\n{least:.3g} … {most:.3g}"
        draw.text((_GAP, y + _CELL // 2 - _LINE), name + shown, fill=_INK)
        for column, array in enumerate(arrays):
            cell = _picture(_array(array), least, most)
            sheet.paste(cell, (_LABEL + column * (_CELL + _GAP), y))
    for column, text in enumerate(captions[:columns]):
        draw.text((_LABEL + column * (_CELL + _GAP), height - _LINE - 2), text[:26], fill=_INK)
    write_if_room(path, lambda file: sheet.save(file, format="PNG"))
    return path


def _array(array: Any) -> np.ndarray[Any, Any]:
    if hasattr(array, "detach"):
        array = array.detach().float().cpu().numpy()
    found: np.ndarray[Any, Any] = np.asarray(array, dtype=np.float32)
    if found.ndim == 3 and found.shape[0] in (1, 3):
        found = np.moveaxis(found, 0, -1)
    if found.ndim == 3 and found.shape[-1] == 1:
        found = found[..., 0]
    if found.ndim not in (2, 3) or (found.ndim == 3 and found.shape[-1] != 3):
        raise ValueError(f"an array of shape {found.shape} is no picture: (H,W) or three colours")
    return found


def _limits(arrays: Sequence[Any]) -> tuple[float, float]:
    values = (
        np.concatenate([_array(array).ravel() for array in arrays]) if len(arrays) else np.zeros(1)
    )
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    least, most = float(values.min()), float(values.max())
    return (0.0, 1.0) if least >= 0 and most <= 1 else (least, most)


def _picture(array: np.ndarray[Any, Any], least: float, most: float) -> Image.Image:
    scaled = (np.nan_to_num(array) - least) / (most - least or 1.0)
    pixels = (scaled.clip(0, 1) * 255).round().astype(np.uint8)
    height, width = pixels.shape[:2]
    factor = _CELL / max(height, width)
    # Small arrays keep hard edges, so that every value can be seen.
    how = Image.Resampling.NEAREST if factor > 1 else Image.Resampling.BOX
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return Image.fromarray(pixels).convert("RGB").resize(size, how)
