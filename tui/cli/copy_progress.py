"""How far a copy is, on one line that is written over; nothing where nobody looks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from runners.places.ssh.copying import Copier
from tui.cli.output import control

_CELLS = 20


@contextmanager
def progress_line(copier: Copier, label: str) -> Iterator[None]:
    """Show what `copier` says of itself for the length of the block."""
    if not sys.stderr.isatty():
        yield
        return

    def show(percent: int, text: str) -> None:
        bar = ("█" * (percent * _CELLS // 100)).ljust(_CELLS, "░")
        control(f"\r\x1b[K{label} {bar} {percent}% {text}", sys.stderr)
        sys.stderr.flush()

    copier.progress = show
    try:
        yield
    finally:
        copier.progress = None
        control("\r\x1b[K", sys.stderr)
        sys.stderr.flush()
