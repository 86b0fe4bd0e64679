"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

DRAFT_SUFFIX = ".part"


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> int:
    """Let write fill a draft beside path, sync it and give it its name; return its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT_SUFFIX}")
    try:
        with draft.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return path.stat().st_size


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
