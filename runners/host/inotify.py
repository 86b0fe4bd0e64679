"""One notice that a file changed, from the kernel (inotify, Linux), and then silence until it is
asked for again.

A watch that stays costs a program that writes line by line two thirds of its speed: the kernel
wakes the watcher at every write. A one-shot watch wakes it once.
"""

import ctypes
import os
from pathlib import Path

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x002, 0x004, 0x400, 0x800
_CREATE, _MOVED_TO = 0x100, 0x080
_ONESHOT = 0x80000000


class OneShotWatch:
    """An inotify descriptor, `descriptor`, that becomes readable once after each `arm`."""

    def __init__(self) -> None:
        """OSError where the kernel has no inotify, or no more of it."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError("no inotify here")
        self.descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def arm(self, path: Path) -> bool:
        """Wait for the next change of the file at `path`, or for its coming; False when neither
        can be watched.
        """
        changes = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF | _ONESHOT
        return self._add(path, changes) or self._add(path.parent, _CREATE | _MOVED_TO | _ONESHOT)

    def _add(self, path: Path, mask: int) -> bool:
        return bool(
            self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), ctypes.c_uint32(mask))
            >= 0
        )

    def drain(self) -> None:
        """Forget what came."""
        try:
            while os.read(self.descriptor, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)
