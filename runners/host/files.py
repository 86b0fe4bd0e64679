"""Files written whole or line by line: a crash leaves the old or the new, never half of it."""

import json
import os
import time
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`: written beside it, synced, renamed; 0600. OSError
    when it cannot.
    """
    temporary = f"{path}.{os.getpid()}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        os.close(descriptor)
        os.unlink(temporary)
        raise
    os.close(descriptor)
    os.replace(temporary, path)


def write_json(path: Path, value: object) -> None:
    """Replace the file at `path` by `value` as JSON."""
    write_whole(path, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def open_private(path: Path) -> IO[bytes]:
    """Open the file at `path` for appending bytes; a new one is 0600. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def append_line(path: Path, line: bytes) -> None:
    """Append one line in one write, on disk when this returns; 0600. OSError when it cannot."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_event(path: Path, kind: str, **fields: Any) -> None:
    """Append one event line with the time now; a full disk loses the line, never the run."""
    line = json.dumps({"time": time.time(), "type": kind, **fields}, ensure_ascii=False) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        os.write(descriptor, line.encode())
    except OSError:
        pass
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in the file at `path`; None when it is missing, damaged, or no object."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
