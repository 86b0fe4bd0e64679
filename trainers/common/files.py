"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

DRAFT_SUFFIX = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DAMAGED = (
    OSError, ValueError, EOFError, KeyError, NotImplementedError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What NumPy and nibabel raise for a file that is no array, or is damaged."""
LOST_OUTPUT = (*FULL, errno.EIO)
"""What writing to a log raises on a full disk, and to a terminal that is gone."""


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> int:
    """Let write fill a draft beside path, sync it and give it its name; return its bytes.

    Raises OSError that names path where the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT_SUFFIX}")
    try:
        with draft.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as problem:
        draft.unlink(missing_ok=True)
        if full := _full_disk(problem):
            raise OSError(full.errno, full.strerror, str(path)) from problem
        raise
    sync_folder(path.parent)
    return path.stat().st_size


def _full_disk(problem: BaseException | None) -> OSError | None:
    """Return the error of a full disk behind a problem: PyTorch's writer covers it by its own."""
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in FULL:
            return problem
        problem = problem.__cause__ or problem.__context__
    return None


def write_text_whole(path: Path, text: str) -> int:
    """Write text as UTF-8 so that path is whole or absent; return its bytes."""
    return write_whole(path, lambda file: file.write(text.encode("utf-8")))


def sync_folder(folder: Path) -> None:
    """Sync a folder, in which a rename lies, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_drafts(folder: Path) -> list[str]:
    """Delete drafts that processes which are gone left in folder; return their names."""
    removed = []
    for draft in folder.glob(f".*{DRAFT_SUFFIX}"):
        process = draft.name.removesuffix(DRAFT_SUFFIX).rpartition(".")[2]
        if process.isdigit() and (int(process) == os.getpid() or not _lives(int(process))):
            draft.unlink(missing_ok=True)
            removed.append(draft.name)
    return sorted(removed)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
