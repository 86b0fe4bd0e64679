"""`help TOPIC`: the pages of the documentation, where there is no browser and no network."""

import sys
from pathlib import Path

from runners.host.helpers import ROOT


def topics() -> dict[str, Path]:
    """The pages by name."""
    return {path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))}


def show_topic(name: str) -> bool:
    """Print a page, through $PAGER on a terminal; False when there is none of that name."""
    page = topics().get(name)
    if page is None:
        return False
    text = page.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        from pydoc import pager

        pager(text)
    else:
        print(text)
    return True
