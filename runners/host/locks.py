"""Locks as signs of life: a pid can be reused, a lock cannot outlive its holders."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.host.files import closing, is_passing
from runners.host.identity import has_our_locks, is_past

_CLAIM_S = 0.25


def is_held(path: Path) -> bool:
    """True when some process of this host holds the exclusive lock on `path`.

    So it is of one that cannot be looked at just now: out of descriptors, nothing is seen free.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return is_passing(error)
    try:
        # A shared probe: two probes never mistake each other for a holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        return is_passing(error)
    finally:
        os.close(descriptor)
    return False


def is_held_beside(path: Path, boot: str) -> bool:
    """True when another container of this machine, whose start is the recorded `boot`, holds it."""
    return is_past(boot) and has_our_locks(boot) and is_held(path)


def await_release(path: Path) -> None:
    """Return once nobody holds the lock on `path`; it is made if need be. Raises OSError."""
    flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
    with closing(os.open(path, flags, 0o600)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def acquire(path: Path, patience_s: float = 0.5, mode: int = 0o600) -> int | None:
    """Take the lock on `path`, within `patience_s`: its descriptor, or None. Raises OSError.

    `mode` is that of a file which is not there yet.
    """
    # The descriptor stays open: a lock belongs to it, and ends with its last copy in any process.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(0.005)  # a probe holds the lock for microseconds only
        except OSError:
            os.close(descriptor)
            raise


def claim(path: Path) -> int | None:
    """Be the only process of a kind: the descriptor of its lock, None where another one is.

    The file's time is when it began, which `KeepAlive` asks for; the pid in it is for people.
    """
    descriptor = acquire(path, _CLAIM_S)
    if descriptor is not None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock on `path` for the block, however long it takes. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    with closing(os.open(path, flags, 0o600)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
