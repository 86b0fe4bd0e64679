"""One notice from the kernel (inotify, Linux) that a file changed, then none until the next `arm`.

A watch that stays costs a program that writes line by line two thirds of its speed, because the
kernel wakes the watcher at every write. A one-shot watch wakes it once.
"""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x002, 0x004, 0x400, 0x800
_CREATE, _MOVED_TO = 0x100, 0x080
_ONESHOT = 0x80000000


class OneShotWatch:
    """An inotify descriptor, `descriptor`, that becomes readable once after each `arm`.

    To be kept for file after file: the kernel takes about 15 ms to close one.
    """

    def __init__(self) -> None:
        """OSError where the kernel has no inotify, or no more of it."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError("no inotify here")
        self.descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._path: Path | None = None
        self._watch = -1

    def arm(self, path: Path) -> bool:
        """Await the next change of the file at `path`, or its creation; False if neither can be.

        What was awaited of another file is awaited no longer.
        """
        if path != self._path:
            self._forget()
            self._path = path
        changes = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF | _ONESHOT
        # A file that does not exist yet cannot be watched, so its folder is.
        return self._add(path, changes) or self._add(path.parent, _CREATE | _MOVED_TO | _ONESHOT)

    def _add(self, path: Path, mask: int) -> bool:
        self._watch = self._libc.inotify_add_watch(
            self.descriptor, os.fsencode(path), ctypes.c_uint32(mask)
        )
        return bool(self._watch >= 0)

    def _forget(self) -> None:
        if self._watch >= 0 and self._libc.inotify_rm_watch(self.descriptor, self._watch) == 0:
            self.drain()  # the kernel tells that it has forgotten

    def drain(self) -> None:
        """Discard the notices that came."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)
