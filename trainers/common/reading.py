"""Pictures and arrays that a trainer is given: read in one way, refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from trainers.common.errors import SettingsError

DEEP = 65535
"""White in a picture of 16 bits."""
DARK = 4095
"""White in 12 bits: a picture of 16 that is nowhere brighter was stored in a part of its range."""
QUICK = 64
"""Pixels a side that a JPEG is decoded to, at least, where it is only looked at."""
NAMED = 5
"""Pictures that are named where more cannot be used."""


class PictureError(SettingsError):
    """A picture file that cannot be used; its text is one line that names it."""


def read_picture(
    path: Path, colour: bool = True, stated: bool = False, turned: bool = True
) -> Image.Image:
    """Return a picture file as 8-bit RGB, or as 32-bit grey in [0,1] without `colour`.

    It is turned as its EXIF data says, unless it is not to be `turned`. What is transparent is laid
    over black, which is what is drawn where there is no Gaussian. Grey of 16 bits keeps its range,
    however dark it is where it is `stated` what white means. Raises PictureError naming the file
    where it cannot be read, has pixels that are not finite or of unknown range.
    """
    with _opened(path) as file:
        return _converted(file, path, colour, stated, turned)


def stored_size(path: Path) -> tuple[int, int]:
    """Return width and height of a picture as it is stored. Raises PictureError."""
    with _opened(path) as file:
        return file.size


def check_pictures(paths: Iterable[Path]) -> None:
    """Raise what read_picture would raise, of all at once.

    Quicker, for a JPEG is decoded to a small one.
    """
    problems = []
    for path in paths:
        try:
            with _opened(path) as file:
                file.draft("RGB", (QUICK, QUICK))
                _converted(file, path, True)
        except PictureError as problem:
            problems.append(str(problem))
    if problems:
        more = [f"and {len(problems) - NAMED} more"] if len(problems) > NAMED else []
        raise PictureError("; ".join([*problems[:NAMED], *more]))


def _opened(path: Path) -> Image.Image:
    try:
        return Image.open(path)
    except UnidentifiedImageError as problem:
        text = f"{path} cannot be read as an image (it is of no kind that Pillow knows)"
        raise PictureError(text) from problem
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise PictureError(f"{path} cannot be read as an image ({why})") from problem


def _converted(
    file: Image.Image, path: Path, colour: bool, stated: bool = False, turned: bool = True
) -> Image.Image:
    try:
        # The copy that turning makes has no size to be opened again, so the pixels are read here.
        file.load()
        picture: Any = ImageOps.exif_transpose(file) if turned else file
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
        raise PictureError(f"{path} cannot be read as an image ({problem})") from problem
    if picture.mode.startswith("I") or picture.mode == "F":
        grey = _deep_grey(picture, path, stated)
        if not colour:
            return Image.fromarray(grey)
        return Image.fromarray((grey * 255).round().astype(np.uint8)).convert("RGB")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        black = Image.new("RGBA", picture.size, (0, 0, 0, 255))
        picture = Image.alpha_composite(black, picture)
    if colour or picture.mode == "LAB":
        # Pillow makes no grey of LAB but by way of RGB.
        picture = Image.Image.convert(picture, "RGB")
    if colour:
        return picture
    return Image.fromarray(np.asarray(picture.convert("L"), dtype=np.float32) / 255)


def _deep_grey(picture: Image.Image, path: Path, stated: bool) -> NDArray[np.float32]:
    """Return grey of more than 8 bits, (H,W) in [0,1]: 65535 is white, or 255, of floats also 1."""
    pixels = np.asarray(picture, dtype=np.float32)
    if not np.isfinite(pixels).all():
        raise PictureError(f"{path} has pixels that are not finite")
    low, high = float(pixels.min()), float(pixels.max())
    if low < 0 or high > DEEP:
        raise PictureError(
            f"{path} has grey values from {low:g} to {high:g}: white is taken to be 65535"
            " (16 bits); save it as a PNG of 8 or 16 bits"
        )
    if picture.mode == "F" and high <= 1:
        return pixels
    deep = picture.mode.startswith("I;16") or high > 255
    if deep and 0 < high <= DARK and not stated:
        raise PictureError(
            f"{path} is nowhere brighter than {high:g} of {DEEP}, as if fewer bits had been stored"
            " in 16: multiply its values so that white is 65535, or save it as a PNG of 8 bits"
        )
    return pixels / np.float32(DEEP if deep else 255)


def check_finite(values: NDArray[Any], path: Path) -> None:
    """Raise SettingsError where any number of a file is NaN or infinite, saying how many are."""
    finite = np.isfinite(values)
    if not finite.all():
        count = int(values.size - np.count_nonzero(finite))
        raise SettingsError(
            f"{path} holds numbers that are not finite ({count:,} of {values.size:,}): make it anew"
        )
