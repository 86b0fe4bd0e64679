"""Files written whole or line by line: a crash leaves the old or the new, never a half.

And the one door by which files are opened for reading: plain files only, without waiting. A FIFO
under a name that is looked for would otherwise stop whoever opens it, for ever. Paths that come
from people and programs are looked at here too, without an error whatever they are.
"""

import errno
import io
import json
import os
import stat
import time
from _thread import get_native_id
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from runners.host.mounts import no_answer, silent_server

ABSENT = "no such file or folder"
PLAIN_LIMIT = 64 << 20
"""Bytes: none of the files that are read whole is meant to become nearly as long."""

_NUMBER_LIMIT = 4096
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)

# Without O_NONBLOCK, opening a FIFO in place of our file would block for ever.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC


def expanded(path: Path | str) -> Path:
    """`path` with its user's home folder in place of a first `~` or `~user`, as a shell does it.

    An unknown user's stays as it is written: what is wrong with it is said where it is not found.
    """
    return Path(os.path.expanduser(path))


def home_folder() -> Path:
    """`$HOME`, else what the user database says; `/` where neither knows one, as Docker has it."""
    found = expanded("~")
    return found if found.is_absolute() else Path("/")


def current_folder() -> Path:
    """The folder that this process is in; where it has been deleted, what it was called."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.readlink("/proc/self/cwd").removesuffix(" (deleted)"))


def absence(path: Path | str) -> str:
    """Why nothing is seen at `path`: ABSENT or the system's words; empty where something is.

    In whatever folder it lies and however long it is: no OSError, no ValueError.
    """
    if server := silent_server(str(path)):
        return no_answer(server)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except ValueError:
        return "no name of a file"  # a null byte in it
    return ""


def is_there(path: Path | str) -> bool:
    """Whether anything is seen at `path`: not where one may not, or no server answers."""
    return not silent_server(str(path)) and os.path.exists(path)


def is_file(path: Path | str) -> bool:
    """Whether a file is seen at `path`, as is_there does."""
    return not silent_server(str(path)) and os.path.isfile(path)


def is_folder(path: Path | str) -> bool:
    """Whether a folder is seen at `path`, as is_there does."""
    return not silent_server(str(path)) and os.path.isdir(path)


def open_plain(path: Path | str) -> int:
    """A descriptor for reading the plain file at `path`. OSError for a folder, FIFO or device."""
    descriptor = os.open(path, _READ)
    try:
        _size_of_plain(descriptor, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _size_of_plain(descriptor: int, path: Path | str) -> int:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return found.st_size


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """The descriptor, which is closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_binary(path: Path | str) -> io.BufferedReader:
    """The plain file at `path`, open for reading bytes; raises OSError for anything else."""
    return io.BufferedReader(io.FileIO(open_plain(path), "rb"))


def read_tail(path: Path, most: int) -> bytes:
    """The last `most` bytes of a plain file; empty when it cannot be read."""
    try:
        with closing(open_plain(path)) as descriptor:
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, most, max(0, size - most))
    except OSError:
        return b""


def read_plain(path: Path | str, limit: int = PLAIN_LIMIT) -> bytes:
    """The bytes of the plain file at `path`. OSError if it is not one, or exceeds `limit` bytes."""
    descriptor = os.open(path, _READ)
    try:
        # Hundreds of small files are read for a list: nothing is asked twice.
        size = _size_of_plain(descriptor, path)
        if size > limit:
            raise OSError(errno.EFBIG, f"longer than {limit:,} bytes", str(path))
        # One byte more than the size: the first read also finds out whether the file has grown.
        content = os.read(descriptor, size + 1)
        while len(content) <= limit and (block := os.read(descriptor, 1 << 16)):
            content += block
        return content
    finally:
        os.close(descriptor)


def read_text(path: Path | str, limit: int = PLAIN_LIMIT) -> str:
    """The text of the file at `path`, whatever bytes are in it; empty when it cannot be read."""
    try:
        return read_plain(path, limit).decode("utf-8", "replace")
    except OSError:
        return ""


def read_number(path: Path | str) -> int | None:
    """The whole number that a small file says; None when it says none, or cannot be read."""
    try:
        return int(read_plain(path, _NUMBER_LIMIT))
    except (OSError, ValueError):
        return None


def status_of(path: Path | str) -> os.stat_result | None:
    """What the system says of the file or folder at `path`; None where nothing is seen."""
    try:
        return os.stat(path)
    except OSError:
        return None


def size_of(path: Path) -> int:
    """The bytes in a file; 0 where there is none."""
    found = status_of(path)
    return found.st_size if found is not None else 0


def is_gone(path: Path) -> bool:
    """Whether nothing is at `path` any more; False where that cannot be told just now."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # a file server that does not answer has removed nothing
    return False


def modified_at(path: Path | str) -> float:
    """When the file at `path` was written last (unix seconds); 0 when it is not there."""
    found = status_of(path)
    return found.st_mtime if found is not None else 0.0


def stamp_of(path: Path) -> int:
    """By which a file or folder is known to have changed (unix ns); 0 when it is not there."""
    found = status_of(path)
    return found.st_mtime_ns if found is not None else 0


def identity_of(path: Path | str) -> tuple[int, int] | None:
    """By which a file is known whatever it is called: device and inode; None when there is none."""
    found = status_of(path)
    return None if found is None else (found.st_dev, found.st_ino)


def is_passing(error: OSError) -> bool:
    """Whether it says nothing of what is there: in a moment it may be looked at again."""
    return error.errno in _PASSING


def names_in(folder: Path | str, must_know: bool = False) -> list[str]:
    """The names in a folder, sorted; none where it is not there or cannot be looked into.

    Who `must_know` that there are none has the OSError of what is passing.
    """
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if must_know and is_passing(error):
            raise
        return []


def folder_stamp(folder: Path) -> object:
    """By which it is known that a file of a folder was written, added or removed: none is read."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry.name, entry.stat().st_mtime_ns) for entry in entries)
    except OSError:
        return None


def replace(path: Path, content: bytes, sync: bool = True) -> None:
    """Replace the file at `path` by `content`: written beside it, synced, renamed; mode 0600.

    Raises OSError when it cannot; the old file then stands. Without `sync`,
    a power cut may lose both.
    """
    # Two writers, threads too, must not share a draft, nor follow another user's link (O_NOFOLLOW).
    temporary = f"{path}.{get_native_id()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            # Before the rename: many file systems write a rename to disk earlier than the data, and
            # a power cut would leave an empty file under the old name.
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)


def create_once(path: Path, content: bytes) -> bool:
    """Write a file of mode 0600 that is not there yet; False where it is. Raises OSError.

    Of several processes that would write it, one does.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        return False
    with closing(descriptor):
        try:
            if os.write(descriptor, content) < len(content):
                raise OSError(errno.ENOSPC, "no room for all of it", str(path))
        except OSError:
            os.unlink(path)  # an empty one would be there for ever
            raise
    return True


def overwrite(path: Path, content: bytes, size: int) -> None:
    """Write `content` over the first `size` bytes of an existing file, which needs no free space.

    The rest of `size` is filled with blanks. Raises OSError when the file is shorter, or cannot be
    written. This is how a stop can be asked for on a full disk.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with closing(os.open(path, flags)) as descriptor:
        if os.fstat(descriptor).st_size < size or len(content) > size:
            raise OSError(errno.ENOSPC, "no room was set aside", str(path))
        os.pwrite(descriptor, content.ljust(size), 0)
        os.fsync(descriptor)


def json_bytes(value: object) -> bytes:
    """`value` as JSON; what is no UTF-8, as in the name of a file, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def write_json(path: Path, value: object) -> None:
    """Replace the file at `path` by `value` as JSON. Raises OSError."""
    replace(path, json_bytes(value))


def open_private(path: Path) -> IO[bytes]:
    """Open the file at `path` for appending bytes; a new one is 0600. Raises OSError."""
    return os.fdopen(os.open(path, _APPEND, 0o600), "ab")


def append_line(path: Path, line: bytes) -> None:
    """Append one line in one write, on disk when this returns; mode 0600. Raises OSError."""
    append_lines(path, (line,))


def append_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Append lines, each in one write; all are on disk when this returns. As `append_line`.

    Of a line that a full disk has cut short, what is there becomes a line of its own.
    """
    with closing(os.open(path, _APPEND ^ os.O_WRONLY | os.O_RDWR, 0o600)) as descriptor:
        size = os.fstat(descriptor).st_size
        begin = b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
        for line in lines:
            # One write: with O_APPEND, lines of several processes then do not mix.
            if os.write(descriptor, begin + line + b"\n") <= len(begin + line):
                raise OSError(errno.ENOSPC, "no room for a whole line", str(path))
            begin = b""
        os.fsync(descriptor)


def append_event(path: Path, kind: str, **fields: Any) -> None:
    """Append one event line with the current time; a full disk loses the line, never the run."""
    line = json_bytes({"time": time.time(), "type": kind, **fields})
    with suppress(OSError), closing(os.open(path, _APPEND, 0o600)) as descriptor:
        os.write(descriptor, line + b"\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in the file at `path`; None when it is missing, damaged, or no object."""
    try:
        value = json.loads(read_plain(path))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
