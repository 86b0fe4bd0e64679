"""Orphans of this process's children become its own children (Linux), so that none is lost.

Standard library only: the supervisor imports it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_CHILD_SUBREAPER = 36
_on = False


def become_subreaper(on: bool = True) -> None:
    """Take orphans in from now on, or no longer; nothing happens where the kernel has no such."""
    global _on
    import ctypes  # two milliseconds of every command, where only a supervisor needs it

    try:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
        _on = on
    except (OSError, AttributeError):
        pass


@contextmanager
def no_subreaper() -> Iterator[None]:
    """Take no orphans in for the length of the block: what is begun there is to be nobody's."""
    before = _on
    if before:
        become_subreaper(False)
    try:
        yield
    finally:
        if before:
            become_subreaper(True)
