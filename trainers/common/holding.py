"""A run's folders, held while it lives: a second run into one of them is refused in a line.

The lock is POSIX's own of a file in the folder. Loading processes do not inherit it and it ends
with the process that took it, however that ends: what stays of it never keeps a run from starting.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from trainers.common.errors import SettingsError
from trainers.common.ranks import Ranks, from_leader
from trainers.common.report import run_directory

try:
    import fcntl
except ImportError:  # a system without POSIX's locks
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = ".training.lock"
_TAKEN = (errno.EACCES, errno.EAGAIN)
_held: dict[Path, tuple[int, list[Path]]] = {}
"""Locks of this process: their files' descriptors, and the folders that were made for them."""


def hold_folders(ranks: Ranks, flag: str, *folders: Path) -> None:
    """Keep other runs out of these folders until this process ends; rank 0 does it for all.

    Raises SettingsError, before anything else is written, where another run has one of them or it
    cannot be written. A file system without locks is told of in a note. `flag` names the folder.
    """
    from_leader(ranks, lambda: [_hold(folder.absolute(), flag) for folder in folders])


def release_folders() -> None:
    """Let all go, and take away what was made for it alone."""
    for path, (descriptor, made) in reversed(_held.items()):
        # While the lock is held: who opened the file meanwhile sees that it has lost its name.
        path.unlink(missing_ok=True)
        os.close(descriptor)
        for folder in made:
            try:
                folder.rmdir()
            except OSError:
                break
    _held.clear()


def _hold(folder: Path, flag: str) -> None:
    path = folder / LOCK_NAME
    if fcntl is None or path in _held:
        return
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        descriptor = _lock(path)
    except _Unlockable as problem:
        print(
            f"note         {folder} cannot be locked ({problem}): that no other run writes there"
            " is not checked"
        )
    except OSError as problem:
        raise SettingsError(f"{folder} cannot be written: {problem.strerror}") from problem
    else:
        if isinstance(descriptor, dict):
            raise SettingsError(
                f"another run is writing into {folder} ({_named(descriptor)}): wait until it has"
                f" ended, stop it, or name another folder by {flag}"
            )
        _held[path] = descriptor, made
        _describe(descriptor)


class _Unlockable(Exception):
    """Why a file system or a file of somebody else gives no lock."""


def _lock(path: Path) -> int | dict[str, Any]:
    """Return the descriptor of a lock that is held from now on, or what its holder has written."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # A run that ended has taken away the folder that it had made.
        except PermissionError as problem:
            if path.exists() and os.access(path.parent, os.W_OK):
                raise _Unlockable(f"{path.name} in it is another user's") from problem
            raise
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # Its holder ended meanwhile, and took the file's name away.
        except OSError as problem:
            holder = _read(descriptor)
            os.close(descriptor)
            if problem.errno in _TAKEN:
                return holder
            path.unlink(missing_ok=True)
            raise _Unlockable(f"its file system has no locks, {problem.strerror}") from problem


def _describe(descriptor: int) -> None:
    run = run_directory()
    mine = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    line = json.dumps(mine | ({"run": run.absolute().name} if run else {})) + "\n"
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, line.encode(), 0)
    except OSError:
        pass  # A full disk: held all the same.


def _read(descriptor: int) -> dict[str, Any]:
    try:
        return dict(json.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, ValueError, TypeError):
        return {}


def _named(holder: dict[str, Any]) -> str:
    if not {"pid", "host", "since"} <= holder.keys():
        return "which one is not known"
    run = f"run {holder['run']}, " if "run" in holder else ""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(holder["since"])))
    return f"{run}process {holder['pid']} on {holder['host']}, since {since}"
