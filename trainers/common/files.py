"""Files that are whole or absent, whatever happens while they are written, and files of lines.

What a run is for (checkpoints, weights) must be written, or the run ends with the reason. What it
tells of itself (lines, events, histories, pictures) may get lost on a full disk, and is said to.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

DRAFT_SUFFIX = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DAMAGED = (
    OSError, ValueError, TypeError, EOFError, KeyError, NotImplementedError, OverflowError,
    SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What NumPy raises for a file that is no array, or is damaged."""
LOST_OUTPUT = (*FULL, errno.EIO, errno.EPIPE)
"""What writing to a log raises on a full disk, and to a terminal or a reader that is gone."""


def expanded(path: str | Path) -> Path:
    """Return path with a home folder for a first ~ or ~user; an unknown user's stays as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that of pathlib raises RuntimeError


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


def content_of(path: Path) -> str:
    """Return a text that changes with what a file holds; nothing where there is none."""
    if not path.is_file():
        return ""
    digest = hashlib.blake2b(digest_size=8)
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def name_also(path: Path, name: Path) -> None:
    """Give a file a second name at once: by a hard link or, where there are none, by a copy."""
    draft = name.with_name(f".{name.name}.{os.getpid()}{DRAFT_SUFFIX}")
    draft.unlink(missing_ok=True)
    try:
        os.link(path, draft)
    except OSError:
        shutil.copyfile(path, draft)
    draft.replace(name)
    sync_folder(name.parent)


def write_if_room(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Do what write_whole does where there is room, and warn once of a full disk."""
    try:
        write_whole(path, write)
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        if path.parent not in _FULL_FOLDERS:
            _warn(f"{path} is not written, nor what else tells of this run: {problem.strerror}")
        _FULL_FOLDERS.add(path.parent)
    else:
        _FULL_FOLDERS.discard(path.parent)


_FULL_FOLDERS: set[Path] = set()
"""Where write_if_room has warned of, and found no room since."""


def check_writable(folder: Path) -> None:
    """Raise OSError where a file could not be written in folder, made where need be; leave none."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    with tempfile.TemporaryFile(dir=place):
        pass


class LineFile:
    """Lines at the end of a file; those that find no room are left out, and their number said.

    `waiting` ones are kept until `begin`: a run that is refused before leaves no file.
    """

    def __init__(self, path: Path, waiting: bool = False) -> None:
        self._path, self._lost, self._cut = path, 0, False
        self._descriptor: int | None = None
        self._waiting: list[str] | None = [] if waiting else None
        if not waiting:
            self._open()

    def begin(self) -> None:
        """Write the lines that wait, and later ones at once."""
        lines, self._waiting = self._waiting or [], None
        for line in lines:
            self.write(line)

    def write(self, line: str) -> None:
        """Append a line in one write, or leave it out."""
        if self._waiting is not None:
            self._waiting.append(line)
            return
        data = (b"\n" if self._cut else b"") + f"{line}\n".encode("utf-8", "backslashreplace")
        written = 0
        try:
            if self._descriptor is None:
                self._open()
            if self._descriptor is not None:
                written = os.write(self._descriptor, data)
        except OSError as problem:
            self._lose(problem)
            return
        if written < len(data):
            # What did not fit is cut off here: the next line begins a new one.
            self._cut = self._cut or written > 0
            self._lose(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        elif self._lost:
            _warn(f"{self._path.name} is written again; {self._lost} line(s) of it were lost")
            self._lost, self._cut = 0, False

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, flags, 0o644)
        except OSError as problem:
            if problem.errno not in FULL:
                raise

    def _lose(self, problem: OSError) -> None:
        if not self._lost:
            _warn(f"lines of {self._path.name} are lost: {problem.strerror}")
        self._lost += 1


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


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
