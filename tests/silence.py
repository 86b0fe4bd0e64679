"""A file server that does not answer: a file system of this kernel that nobody serves.

Whoever looks at a file in it waits, until it is taken away.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_DETACHED = 2


@contextmanager
def silent_folder(folder: Path) -> Iterator[None]:
    """Nothing is heard of `folder` meanwhile. Skips the test where nothing may be mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as problem:
        pytest.skip(f"no file system can be made here: {problem}")
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"nobody", bytes(folder), b"fuse", 0, options.encode()):
        os.close(device)
        pytest.skip(f"nothing may be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        libc.umount2(bytes(folder), _DETACHED)
        os.close(device)  # Whoever still waits is told that nobody is there.
