"""Copies where there is no rsync: a tar stream between us and our own agent.

What has the size and the time it had is left out.
"""

import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from runners.host.below import resolve_below
from runners.host.files import open_binary
from runners.model.errors import FresnelError
from runners.places.ssh.agent_tool import AgentTool, ask_stamps
from runners.places.ssh.copying import Copied, Copier, stamps_of
from runners.places.ssh.ssh import Ssh

_BLOCK = 1 << 16
_TIME_NS = "FRESNEL.mtime_ns"
"""A file's modification time in an archive, by which it is known to be the same still."""


class StreamCopier(Copier):
    """Copies to and from one machine."""

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh

    def send(self, local: Path, names: Iterable[str], remote: str) -> None:
        """Bring these files of the folder `local` into the folder `remote` there."""
        with AgentTool(self._ssh, "receive") as tool:
            tool.send({"folder": remote})
            pack(local, names, tool.input)
            tool.close_input()
            tool.finish()

    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`, of these sizes at most."""
        local.mkdir(parents=True, exist_ok=True)
        existing = {} if anew else stamps_of(local, sizes)
        found = ask_stamps(self._ssh, remote, list(sizes))
        offered = {name: found[name] for name in sizes if name in found}
        wanted = [name for name, stamp in offered.items() if existing.get(name) != stamp]
        count = 0
        if wanted:
            with AgentTool(self._ssh, "send") as tool:
                tool.send({"folder": remote, "names": wanted})
                tool.close_input()
                try:
                    count = unpack(tool.output, local, {name: sizes[name] for name in wanted})
                except (tarfile.TarError, ValueError, OverflowError) as error:
                    raise FresnelError(
                        f"{self._ssh.host.name}: what it sent cannot be parsed: {error}"
                    ) from None
                tool.finish()
        return Copied(len(wanted), count)


def pack(folder: Path, names: Iterable[str], stream: IO[bytes]) -> None:
    """Write files of a folder as a tar stream.

    One that grows meanwhile goes as it was, one that went away is left out.
    """
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            try:
                with open_binary(folder / name) as file:
                    member = _member(folder / name, name)
                    archive.addfile(member, _Padded(file, member.size))
            except FileNotFoundError:
                continue


def _member(path: Path, name: str) -> tarfile.TarInfo:
    """A file's entry in an archive, its time to the nanosecond: a double holds no such."""
    found = path.stat()
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = found.st_size, found.st_mode & 0o777, 0
    member.pax_headers = {_TIME_NS: str(found.st_mtime_ns)}
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


def unpack(stream: IO[bytes], folder: Path, sizes: Mapping[str, int] | None = None) -> int:
    """Take files out of a tar stream into a folder, each under its name once it is whole.

    Returns the bytes. With `sizes`, only files of these names come, of so many bytes at most each.
    Raises ValueError for a file that leads out of the folder, was not asked for or is too long.
    """
    count = 0
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not member.isfile():
                raise ValueError(f"{member.name!r} is no file")
            if sizes is not None and member.name not in sizes:
                raise ValueError(f"{member.name!r} was not asked for")
            if sizes is not None and member.size > sizes[member.name]:
                raise ValueError(f"{member.name!r} is longer than was said: {member.size:,} bytes")
            target = resolve_below(folder, member.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name[:200]}.part")
            part.unlink(missing_ok=True)
            source = archive.extractfile(member)
            assert source is not None
            with part.open("xb") as file:
                while data := source.read(_BLOCK):
                    file.write(data)
                    count += len(data)
            modified = int(member.pax_headers.get(_TIME_NS, 0))
            os.utime(part, ns=(modified, modified))
            part.chmod(member.mode & 0o777 | 0o600)
            part.replace(target)
    return count
