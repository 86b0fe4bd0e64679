"""Which files of a folder are photographs to learn from."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from trainers.common.settings_parser import SettingsError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}
NOT_READ = {
    ".heic", ".heif", ".avif", ".gif", ".jp2", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw",
}  # fmt: skip
"""What photographs end in that are left out, and said to be."""
KINDS = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))


def photograph_files(folder: Path, shown: bool = True) -> list[Path]:
    """Return a folder's photographs by name, without hidden files.

    `shown`: with a line that names pictures of kinds that are not read. Raises SettingsError where
    there is no folder, or two share a stem and so their features.
    """
    if not folder.is_dir():
        raise SettingsError(f"--data_dir: there is no folder {folder}")
    every = [path for path in folder.iterdir() if path.name[0] != "." and path.is_file()]
    every.sort(key=lambda path: (path.stem, path.name))
    left = [path.name for path in every if path.suffix.lower() in NOT_READ]
    if left and shown:
        more = f", and {len(left) - 5} more" if len(left) > 5 else ""
        print(
            f"left out     {', '.join(left[:5])}{more}: of a kind that is not read; save as JPEG or"
            " PNG"
        )
    found = [path for path in every if path.suffix.lower() in SUFFIXES]
    for earlier, later in pairwise(found):
        if earlier.stem == later.stem:
            raise SettingsError(
                f"{earlier.name} and {later.name} would share their features; rename one"
            )
    return found
