"""Files that can be rewritten when the disk is full: their blocks are reserved beforehand.

A file has two slots, written in turn, so that a crash leaves one of them. File systems that never
overwrite in place (btrfs, ZFS) may still refuse: that is an OSError.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.host.files import closing, read_plain, replace

SLOT = 8192
BALLAST = 256 << 10


def write_reserved(path: Path, value: dict[str, Any]) -> None:
    """Replace what is in `path` by `value`, in place; a new file is written whole.

    A value too long for its slot is not lost: the file is then replaced as any other. Raises
    OSError when it cannot be written.
    """
    known = read_slots(path)
    turn = max((int(slot["turn"]) for slot in known), default=0) + 1
    slot = _slot(turn, value)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = -1
    # In place only into blocks that exist already; anything longer needs space after all.
    fits = descriptor >= 0 and os.fstat(descriptor).st_size == 2 * SLOT and len(slot) == SLOT
    if not fits:
        if descriptor >= 0:
            os.close(descriptor)
        replace(path, slot + (b" " * (SLOT - 1) + b"\n" if len(slot) == SLOT else b""))
        return
    with closing(descriptor):
        # The slot that is not the newest: a crash in the middle leaves the other one whole.
        os.pwrite(descriptor, slot, SLOT * (turn % 2 == 0))
        os.fsync(descriptor)


def read_slots(path: Path) -> list[dict[str, Any]]:
    """The sound slots of `path`, oldest first, as `turn` and `value`. Raises OSError."""
    try:
        content = read_plain(path)
    except FileNotFoundError:
        return []
    found = []
    for line in content.split(b"\n"):
        with suppress(ValueError):
            slot = json.loads(line)
            if isinstance(slot, dict) and isinstance(slot.get("turn"), int) and "value" in slot:
                found.append(slot)
    return sorted(found, key=lambda slot: int(slot["turn"]))


def _slot(turn: int, value: dict[str, Any]) -> bytes:
    line = json.dumps({"turn": turn, "value": value}, ensure_ascii=False).encode()
    return line.ljust(SLOT - 1) + b"\n"


def keep_ballast(path: Path) -> None:
    """Keep some blocks that can be given up when the disk is full; none where there is no room."""
    with suppress(OSError):
        if not path.exists() or path.stat().st_size < BALLAST:
            replace(path, os.urandom(BALLAST))  # not zeros: they may take no room


def drop_ballast(path: Path) -> None:
    """Give up the reserved blocks, if there are any."""
    with suppress(OSError):
        path.unlink()


def disk_is_full(folder: Path) -> bool:
    """True when there is no room for even a few small files where `folder` is."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    # Inodes run out too; a file system without a table of them reports 0 in all.
    return found.f_bavail * found.f_frsize < 64 << 10 or (found.f_files > 0 and found.f_favail < 4)
