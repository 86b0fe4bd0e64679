"""Notices from the kernel (inotify, Linux): that a file changed, that something came or went."""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x002, 0x004, 0x400, 0x800
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x040, 0x080, 0x100, 0x200
_ONESHOT = 0x80000000


class Notices:
    """An inotify descriptor, `descriptor`, that is readable when there is a notice."""

    def __init__(self) -> None:
        """OSError where the kernel has no inotify, or no more of it."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError("no inotify here")
        self.descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def drain(self) -> None:
        """Discard the notices that came."""
        try:
            while os.read(self.descriptor, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)

    def _added(self, path: Path, mask: int) -> int:
        """The number of the watch; negative when there can be none."""
        watch: int = self._libc.inotify_add_watch(
            self.descriptor, os.fsencode(path), ctypes.c_uint32(mask)
        )
        return watch


class FolderWatch(Notices):
    """Notices whenever something comes into one of these folders, or leaves it."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """OSError where the kernel has no inotify, or no more of it."""
        super().__init__()
        for folder in folders:
            self._added(folder, _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO)


class OneShotWatch(Notices):
    """One notice that a file changed after each `arm`.

    A watch that stays costs a program that writes line by line two thirds of its speed, because the
    kernel wakes the watcher at every write. To be kept for file after file: the kernel takes about
    15 ms to close a descriptor.
    """

    def __init__(self) -> None:
        """OSError where the kernel has no inotify, or no more of it."""
        super().__init__()
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
        self._watch = self._added(path, mask)
        return self._watch >= 0

    def _forget(self) -> None:
        if self._watch >= 0 and self._libc.inotify_rm_watch(self.descriptor, self._watch) == 0:
            self.drain()  # the kernel tells that it has forgotten
