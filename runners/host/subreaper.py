"""Making this process adopt its children's orphans (Linux). Standard library only."""

from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_CHILD_SUBREAPER = 36
_on = False


def become_subreaper(on: bool = True) -> None:
    """Adopt orphans from now on, or no longer; does nothing where the kernel cannot."""
    global _on
    import ctypes  # two milliseconds of every command, where only a supervisor needs it

    try:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
        _on = on
    except (OSError, AttributeError):
        pass


@contextmanager
def no_subreaper() -> Iterator[None]:
    """Adopt no orphans for the block: a helper that is started there must not become ours."""
    before = _on
    if before:
        become_subreaper(False)
    try:
        yield
    finally:
        if before:
            become_subreaper(True)
