"""Copies where there is no rsync: a tar stream between us and our own agent.

It goes on within a file where the line broke. What has the size and the time it had is left out.
Not sftp: it goes to and fro five times for a file, knows no time below a second, no name with a
line end and no limit, and is missing where only a session is let through. Figures:
`tests/bench/remote_copies.py`.
"""

import glob
import io
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

from runners.host.below import resolve_below
from runners.host.files import open_binary
from runners.model.errors import FresnelError
from runners.places.ssh.agent_tool import AgentTool, ask_stamps
from runners.places.ssh.copying import Copied, Copier, Stamp, stamps_of
from runners.places.ssh.retries import retry
from runners.places.ssh.ssh import Ssh

_BLOCK = 1 << 16
_MOST_OF_A_NAME = 180
_TIME_NS = "FRESNEL.mtime_ns"
"""A file's modification time in an archive, by which it is known to be the same still."""
_OFFSET = "FRESNEL.offset"
"""How much of the file is there already, and is not in the archive."""

Parts = Mapping[str, tuple[int, Stamp]]
"""By name, how much of a file has arrived, and the stamp of the file that this is of."""


class StreamCopier(Copier):
    """Copies to and from one machine."""

    def __init__(self, ssh: Ssh, notify: Callable[[str], None] = lambda _: None) -> None:
        self._ssh = ssh
        self._notify = notify

    def send(self, local: Path, names: Iterable[str], remote: str) -> None:
        """Bring these files of the folder `local` into the folder `remote` there."""
        stamps = stamps_of(local, names)
        parts = {name: part_name(name, stamp) for name, stamp in stamps.items()}
        found: dict[str, Stamp] = {}

        def attempt() -> None:
            now = ask_stamps(self._ssh, remote, [*stamps, *parts.values()])
            found.clear()
            found.update(now)
            begun = {
                name: (now[part][0], stamps[name]) for name, part in parts.items() if part in now
            }
            # What has arrived in an attempt before has its stamp of here.
            missing = [name for name, stamp in stamps.items() if now.get(name) != stamp]
            with AgentTool(self._ssh, "receive") as tool:
                tool.send({"folder": remote})
                pack(local, missing, tool.input, begun)
                tool.close_input()
                tool.finish()

        retry(attempt, lambda: frozenset(found.items()), self._notify)

    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`, of these sizes at most."""
        if not sizes:
            return Copied()
        local.mkdir(parents=True, exist_ok=True)
        came: dict[str, int] = {}
        moved = 0

        def note(name: str, size: int, is_whole: bool) -> None:
            nonlocal moved
            moved += size
            if is_whole:
                came[name] = (local / name).stat().st_size

        def attempt() -> None:
            existing = {} if anew else stamps_of(local, sizes)
            found = ask_stamps(self._ssh, remote, [name for name in sizes if name not in came])
            wanted = {name: stamp for name, stamp in found.items() if existing.get(name) != stamp}
            if wanted:
                self._bring(remote, {name: sizes[name] for name in wanted}, local, wanted, note)

        retry(attempt, lambda: moved, self._notify)
        return Copied(len(came), sum(came.values()))

    def _bring(
        self,
        remote: str,
        sizes: Mapping[str, int],
        local: Path,
        stamps: Mapping[str, Stamp],
        note: Callable[[str, int, bool], None],
    ) -> None:
        parts = {name: part_name(name, stamp) for name, stamp in stamps.items()}
        begun = stamps_of(local, parts.values())
        have = {
            name: (begun[part][0], stamps[name]) for name, part in parts.items() if part in begun
        }
        with AgentTool(self._ssh, "send") as tool:
            tool.send({"folder": remote, "names": list(sizes), "parts": have})
            tool.close_input()
            try:
                unpack(tool.output, local, sizes, note)
            except (tarfile.TarError, ValueError, OverflowError) as error:
                raise FresnelError(
                    f"{self._ssh.host.name}: what it sent cannot be parsed: {error}"
                ) from None
            tool.finish()


def part_name(name: str, stamp: Stamp) -> str:
    """Where a file with this stamp lies in its folder until it is whole."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}.{_stem(base)}.{stamp[0]}-{stamp[1]}.part"


def _stem(name: str) -> str:
    """As much of a file's name as goes with what else its part is called by."""
    return name.encode()[:_MOST_OF_A_NAME].decode(errors="ignore")


def pack(folder: Path, names: Iterable[str], stream: IO[bytes], parts: Parts | None = None) -> None:
    """Write files of a folder as a tar stream; of those in `parts` what is still to come.

    One that grows meanwhile goes as it was, one that went away is left out.
    """
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            try:
                with open_binary(folder / name) as file:
                    member = _member(folder / name, name, (parts or {}).get(name))
                    file.seek(int(member.pax_headers.get(_OFFSET, 0)))
                    archive.addfile(member, _Padded(file, member.size))
            except FileNotFoundError:
                continue


def _member(path: Path, name: str, part: tuple[int, Stamp] | None) -> tarfile.TarInfo:
    """A file's entry in an archive, its time to the nanosecond: a double holds no such.

    `part` of it is left out, if it is of this very file.
    """
    found = path.stat()
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = found.st_size, found.st_mode & 0o777, 0
    member.pax_headers = {_TIME_NS: str(found.st_mtime_ns)}
    if part is not None and tuple(part[1]) == (found.st_size, found.st_mtime_ns):
        offset = min(max(0, part[0]), found.st_size)
        member.size -= offset
        member.pax_headers[_OFFSET] = str(offset)
    return member


class _Padded(io.RawIOBase):
    """The first `size` bytes of a file; zeros for what was cut off: its hash will tell."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        count = self._left if size < 0 else min(size, self._left)
        data = self._file.read(count).ljust(count, b"\0")
        self._left -= count
        return data


def unpack(
    stream: IO[bytes],
    folder: Path,
    sizes: Mapping[str, int] | None = None,
    note: Callable[[str, int, bool], None] = lambda *_: None,
) -> None:
    """Take files out of a tar stream into a folder, each under its name once it is whole.

    `note` is called with a file's name, the bytes that came of it and whether it is whole. With
    `sizes`, only files of these names come, of so many bytes at most each. Raises ValueError for a
    file that leads out of the folder, was not asked for, is too long, or goes on where nothing is.
    """
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not member.isfile():
                raise ValueError(f"{member.name!r} is no file")
            if sizes is not None and member.name not in sizes:
                raise ValueError(f"{member.name!r} was not asked for")
            offset = max(0, int(member.pax_headers.get(_OFFSET, 0)))
            modified = int(member.pax_headers.get(_TIME_NS, 0))
            size = offset + member.size
            if sizes is not None and size > sizes[member.name]:
                raise ValueError(f"{member.name!r} is longer than was said: {size:,} bytes")
            target = resolve_below(folder, member.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = resolve_below(folder, part_name(member.name, (size, modified)))
            source = archive.extractfile(member)
            assert source is not None
            with _open_part(part, target.name, offset) as file:
                while data := source.read(_BLOCK):
                    file.write(data)
                    note(member.name, len(data), False)
            os.utime(part, ns=(modified, modified))
            part.chmod(member.mode & 0o777 | 0o600)
            part.replace(target)
            note(member.name, 0, True)


def _open_part(part: Path, name: str, offset: int) -> IO[bytes]:
    """The file that goes on from `offset`; a new one for 0, and parts of other stamps go."""
    if offset:
        file = part.open("r+b")
        if file.seek(0, io.SEEK_END) < offset:
            file.close()
            raise ValueError(f"{name!r} goes on where nothing is")
        file.seek(offset)
        file.truncate()
        return file
    for old in part.parent.glob(f".{glob.escape(_stem(name))}.*-*.part"):
        old.unlink(missing_ok=True)
    return part.open("xb")
