"""Copies where there is no rsync: a tar stream between us and our own agent; what has the size and
the time it had is left out.
"""

import fnmatch
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any

from runners.host.files import open_binary
from runners.model.errors import FresnelError
from runners.places.ssh.copying import Copied, Copier
from runners.places.ssh.protocol import MARKER, MOST_NOISE
from runners.places.ssh.ssh import Ssh, quoted

_BLOCK = 1 << 16


class StreamCopier(Copier):
    """Copies to and from one machine."""

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh

    def send(
        self, local: Path, remote: str, excludes: Sequence[str] = (), dry: bool = False
    ) -> Copied:
        """Bring the file or folder `local` to the path `remote` there."""
        root, folder = (
            (local, remote) if local.is_dir() else (local.parent, str(Path(remote).parent))
        )
        renamed = {} if local.is_dir() else {local.name: Path(remote).name}
        files = list_files(root, excludes) if local.is_dir() else {local.name: _look(local)}
        there = self.ask("have", {"folder": folder})
        wanted = [
            name
            for name, (size, time) in files.items()
            if there.get(renamed.get(name, name)) != [size, time // 10**9]
        ]
        total = sum(size for size, _ in files.values())
        sent = sum(files[name][0] for name in wanted)
        if wanted and not dry:
            with self._tool("receive") as (process, _):
                assert process.stdin is not None
                process.stdin.write(json.dumps({"folder": folder}).encode() + b"\n")
                with tarfile.open(fileobj=process.stdin, mode="w|") as archive:
                    for name in wanted:
                        archive.add(root / name, renamed.get(name, name), recursive=False)
                process.stdin.close()
                self._finish(process)
        return Copied(len(wanted), sent, total)

    def bring(self, remote: str, names: Sequence[str], local: Path, anew: bool = False) -> Copied:
        """Bring files of the folder `remote`, by their names in it, into the folder `local`."""
        local.mkdir(parents=True, exist_ok=True)
        here = {} if anew else list_files(local)
        there = self.ask("have", {"folder": remote, "names": list(names)})
        wanted = [
            name
            for name in names
            if name in there
            and there[name] != [here.get(name, (-1, 0))[0], here.get(name, (0, 0))[1] // 10**9]
        ]
        count = 0
        if wanted:
            with self._tool("send") as (process, stream):
                assert process.stdin is not None
                asked = {"folder": remote, "names": wanted}
                process.stdin.write(json.dumps(asked).encode() + b"\n")
                process.stdin.close()
                count = unpack(stream, local)
                self._finish(process)
        return Copied(len(wanted), count, sum(size for size, _ in there.values()))

    def ask(self, tool: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Have the tool answer one question."""
        with self._tool(tool) as (process, stream):
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.close()
            answer = stream.read()
            self._finish(process)
        found = json.loads(answer)
        return found if isinstance(found, dict) else {}

    def _tool(self, name: str) -> "_Tool":
        return _Tool(self._ssh, name)

    def _finish(self, process: "Popen[bytes]") -> None:
        if process.wait():
            raise FresnelError(f"{self._ssh.host.name}: the copy broke off", "ask again")


class _Tool:
    """One of the agent's tools, at the place behind its start marker."""

    def __init__(self, ssh: Ssh, name: str) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed on exit)
        line = f"exec {quoted(ssh.host.command)} host-agent {name}"
        self._ssh = ssh
        self._process = Popen(
            [*ssh.command("keep"), "--", ssh.host.address, line],
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._said,
        )

    def __enter__(self) -> "tuple[Popen[bytes], IO[bytes]]":
        stream = self._process.stdout
        assert stream is not None
        seen = b""
        while not seen.endswith(MARKER):
            byte = stream.read(1)
            seen += byte
            if not byte or len(seen) > MOST_NOISE:
                self._said.seek(0)
                raise self._ssh.trouble(self._said.read().decode("utf-8", "replace"))
        return self._process, stream

    def __exit__(self, *_: object) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass
        self._process.wait()
        self._said.close()


def list_files(root: Path, excludes: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """Size and mtime (ns) of every file below a folder, by its name in it."""
    return {str(path.relative_to(root)): _look(path) for path in _walk(root, excludes)}


def _walk(root: Path, excludes: Sequence[str]) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not _is_left_out(name, excludes))
        for name in sorted(names):
            path = Path(folder) / name
            if not _is_left_out(name, excludes) and path.is_file():
                yield path


def _is_left_out(name: str, excludes: Sequence[str]) -> bool:
    return name == ".rsync-partial" or any(
        fnmatch.fnmatch(name, pattern.strip("/")) for pattern in excludes
    )


def _look(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def pack(folder: Path, names: Sequence[str], stream: IO[bytes]) -> None:
    """Write files of a folder as a tar stream; one that grows meanwhile goes as it was, one that
    went away is left out.
    """
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        for name in names:
            try:
                with open_binary(folder / name) as file:
                    member = archive.gettarinfo(str(folder / name), name, file)
                    archive.addfile(member, _Padded(file, member.size))
            except FileNotFoundError:
                continue


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


def unpack(stream: IO[bytes], folder: Path) -> int:
    """Take files out of a tar stream into a folder, each under its name once it is whole; the
    bytes. FresnelError for a name that leads out of it.
    """
    count = 0
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = Path(member.name).parts
            if not member.isfile() or Path(member.name).is_absolute() or ".." in parts:
                raise FresnelError(f"{member.name!r} is no file below a folder")
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            source = archive.extractfile(member)
            assert source is not None
            with part.open("wb") as file:
                while data := source.read(_BLOCK):
                    file.write(data)
                    count += len(data)
            os.utime(part, (member.mtime, member.mtime))
            part.chmod(member.mode & 0o777 | 0o600)
            part.replace(target)
    return count
