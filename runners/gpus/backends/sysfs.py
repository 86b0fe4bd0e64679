"""Small files of sysfs: their text or number, None for one that is missing or tells nothing."""

import re
from pathlib import Path

from runners.host.files import read_text as text_of


def read_text(path: Path) -> str | None:
    """What stands in a file, without the line's end."""
    return text_of(path).strip() or None


def read_number(path: Path) -> int | None:
    """A whole number that is not negative."""
    text = read_text(path)
    return int(text) if text is not None and text.isdecimal() else None


def read_scaled(path: Path, unit: float) -> float | None:
    """A number in units of `unit`."""
    value = read_number(path)
    return None if value is None else value / unit


def read_errors(device: Path, kind: str) -> int | None:
    """Memory errors of a card, `ce` for corrected ones and `ue` for others."""
    found = re.search(rf"{kind}:\s*(\d+)", read_text(device / "ras/umc_err_count") or "")
    return int(found[1]) if found else None
