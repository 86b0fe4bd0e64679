"""Making this process adopt its children's orphans (Linux). Standard library only."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PR_SET_CHILD_SUBREAPER = 36
_CLONE_PARENT = 0x8000
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
"""The number of the system call clone(2) by machine."""
_on = False


def become_subreaper(on: bool = True) -> None:
    """Adopt orphans from now on, or no longer; does nothing where the kernel cannot."""
    global _on
    import ctypes  # two milliseconds of every command, where only a supervisor needs it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)
        _on = on


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


def fork_beside() -> int | None:
    """Fork a process that is no child of ours but of our parent, as fork returns; None: cannot.

    For one that adopts orphans, which gets all that is twice forked below it (clone(2),
    CLONE_PARENT). For others it is None too: their parent would be a shell that knows nothing of
    it. In the copy nothing of Python is told that it is one, so it must become a program at once.
    """
    number = _CLONE.get(os.uname().machine)
    if not _on or number is None:
        return None
    import ctypes

    # PyDLL: the copy begins with Python's own lock held, as this process holds it now.
    pid = ctypes.PyDLL(None).syscall(number, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    return None if pid < 0 else int(pid)
