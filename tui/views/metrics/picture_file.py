"""Image files from outside, opened with care: bounded in bytes and pixels, of known formats only.

Needs Pillow, which is optional: `pip install 'fresnel-tui[pictures]'`.
"""

import io
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runners.host.files import read_plain
from runners.model.errors import NotFound
from runners.model.run import Run
from runners.watch.pictures import RunPicture, find_pictures

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_BYTES = 64 << 20
MOST_PIXELS = 40_000_000
"""What a picture may be when decoded: 160 MB at four bytes a pixel, as for 7,680 × 5,200."""
MISSING = "pictures need Pillow: pip install 'fresnel-tui[pictures]'"
_SHOWN = (2560, 1600)
_FORMATS = ("PNG", "JPEG")


class UnreadablePicture(Exception):
    """A file that is not shown; the text says why."""


class FoundPictures(msgspec.Struct, frozen=True):
    """The images of a run."""

    pictures: list[RunPicture]


class ImageBytes(msgspec.Struct, frozen=True):
    """An image file as it is."""

    data: bytes


def found_pictures(run: Run) -> FoundPictures:
    """All images of a run that are there now."""
    return FoundPictures(find_pictures(run))


def read_image(run: Run, path: Path, most: int) -> ImageBytes:
    """One of the run's images, `most` bytes at most.

    Raises NotFound for a file that is none of the run's images, OSError for one that is too large.
    """
    # The other machine names the path: only what is the run's own image is sent.
    if all(found.path != str(path) for found in find_pictures(run)):
        raise NotFound(f"{path} is none of the images of {run.id}")
    return ImageBytes(read_plain(path, most))


def has_pillow() -> bool:
    """Whether images can be decoded here at all."""
    return find_spec("PIL") is not None


def load_picture(path: Path | str) -> "tuple[Image, tuple[int, int]]":
    """The picture of a PNG or JPEG file as RGB, at most a screen's size; and its own size.

    Raises UnreadablePicture for what is no such file, is damaged, or is larger than `MOST_BYTES`
    or `MOST_PIXELS`: its header is read before anything is decoded.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        # Through the one door for files from outside: Pillow would follow a link or open a pipe.
        content = read_plain(path, MOST_BYTES)
    except OSError as error:
        raise UnreadablePicture(f"cannot be read: {error.strerror or error}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of sizes; they are held to ours
            with Image.open(io.BytesIO(content), formats=_FORMATS) as opened:
                size = opened.size
                if size[0] * size[1] > MOST_PIXELS:
                    raise UnreadablePicture(
                        f"{size[0]:,} × {size[1]:,} pixels are more than the "
                        f"{MOST_PIXELS:,} that are shown"
                    )
                opened.draft("RGB", _SHOWN)  # a JPEG is decoded no larger than needed
                picture = _flat(opened)
    except UnreadablePicture:
        raise
    except UnidentifiedImageError:
        raise UnreadablePicture("neither a PNG nor a JPEG image") from None
    except Exception as error:  # decoders raise what they like on damaged files
        raise UnreadablePicture(f"damaged or incomplete: {error}") from None
    picture.thumbnail(_SHOWN)
    return picture, size


def _flat(opened: "Image") -> "Image":
    """All of it as RGB, what is transparent on black; 16 bits a pixel brought to eight."""
    from PIL import Image

    opened.load()
    if opened.mode.startswith("I"):
        scaled = opened.convert("I").point(lambda value: value / 256)
        return scaled.convert("L").convert("RGB")
    if opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info:
        layer = opened.convert("RGBA")
        flat = Image.new("RGBA", layer.size, "black")
        flat.alpha_composite(layer)
        return flat.convert("RGB")
    return opened.convert("RGB")
