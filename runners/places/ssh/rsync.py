"""Copies by the system's rsync over the same strict ssh: resumed, and only what changed.

Where one side has none, or the shell there talks, by a stream of our own. Facts: a half file never
has its final name with --partial-dir; exit 24 (a file vanished) is normal for a live run; 10, 12,
30 and 255 are a broken line; what rsync skips by size and time is not compared.
"""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TypeVar

from runners.model.errors import FresnelError
from runners.places.ssh.agent_tool import ask_stamps
from runners.places.ssh.copying import Copied, Copier, stamps_of, statuses_of
from runners.places.ssh.output_tail import OutputTail
from runners.places.ssh.retries import retry
from runners.places.ssh.ssh import Ssh
from runners.places.ssh.stream import StreamCopier

_BROKEN_LINE = frozenset({10, 12, 30, 35, 255})
_PARTIAL = ".rsync-partial"
_PERCENT = re.compile(rb"(\d+)% +(\S+/s) +(\d+:\d+:\d+)")


_ODD_ANSWER, _TALKS = 2, "is your shell clean"
"""How rsync ends where the shell there prints something before it."""
_OLDEST = (3, 2, 5)


T = TypeVar("T")


class TalkingShell(Exception):
    """The shell there prints something at login, over which rsync stumbles."""


class RsyncCopier(Copier):
    """Copies to and from one machine."""

    def __init__(self, ssh: Ssh, notify: Callable[[str], None] = lambda _: None) -> None:
        self._ssh = ssh
        self._notify = notify
        self.progress = None

    def send(self, local: Path, names: Iterable[str], remote: str) -> None:
        """Bring these files of the folder `local` into the folder `remote` there.

        A link comes as the file that it leads to; times are compared to the nanosecond.
        """
        self._make_folder(remote)
        names = list(names)

        def arrived() -> object:
            try:
                return ask_stamps(self._ssh, remote, _with_partial(names))
            except FresnelError:
                return None

        with _listed(names) as file:
            flags = [*file, "--copy-links", "--modify-window=-1"]
            self._run([*flags, f"{local}/", self._remote_path(f"{remote}/")], arrived)

    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`, of these sizes at most.

        `anew` compares every byte, where size and time say that nothing changed.
        """
        if not sizes:
            return Copied()
        local.mkdir(parents=True, exist_ok=True)
        # A link that the machine sends would lead what comes after it out of the folder.
        flags = ["--no-links", "--no-inc-recursive", f"--max-size={max(sizes.values())}"]
        flags += ["--checksum"] if anew else []
        before = _versions(local, sizes)
        with _listed(sizes) as file:
            self._run(
                [*flags, *file, self._remote_path(f"{remote}/"), f"{local}/"],
                lambda: stamps_of(local, _with_partial(sizes)),
            )
        for name, most in sizes.items():
            path = local / name
            if path.is_file() and path.stat().st_size > most:
                path.unlink()
                raise FresnelError(f"{self._ssh.host.name}: {name} is longer than was said")
        # Not by what rsync says: that is of the last try only.
        came = {name: of for name, of in _versions(local, sizes).items() if before.get(name) != of}
        return Copied(len(came), sum(size for _, size, _ in came.values()))

    def _remote_path(self, path: str) -> str:
        user, at, machine = self._ssh.host.address.rpartition("@")
        # rsync takes what follows the first colon for a path, unless brackets hold it.
        return f"{user}{at}{f'[{machine}]' if ':' in machine else machine}:{path}"

    def _make_folder(self, path: str) -> None:
        script = f"mkdir -p -- {shlex.quote(path)}\n"
        done = self._ssh.run("exec sh -s", script.encode())
        if done.returncode:
            stderr = done.stderr.decode("utf-8", "replace").strip()
            raise FresnelError(f"{self._ssh.host.name}: {path} cannot be made: {stderr}")

    def _run(self, arguments: Sequence[str], arrived: Callable[[], object]) -> None:
        """Run rsync again and again while the line breaks, as long as something new arrives."""
        argv = [
            *("rsync", "-rltps", f"--partial-dir={_PARTIAL}", "--info=progress2"),
            *("--timeout=60", "-e", shlex.join(self._ssh.command("keep"))),
            *arguments,
        ]
        retry(lambda: self._run_once(argv), arrived, self._notify)

    def _run_once(self, argv: Sequence[str]) -> None:
        stderr = OutputTail()
        with stderr.listening() as sink:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                env={**os.environ, "LC_ALL": "C"},
            )
        self._read(process)
        code, errors = process.wait(), stderr.text.strip()
        stderr.close()
        if code in _BROKEN_LINE:
            raise self._ssh.trouble(errors)
        if code == _ODD_ANSWER and _TALKS in errors:
            raise TalkingShell
        if code not in (0, 24):
            raise FresnelError(f"{self._ssh.host.name}: rsync ended with {code}: {errors[-500:]}")

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Read what rsync prints; how far it is goes to `progress`."""
        assert process.stdout is not None
        while data := process.stdout.read1(4096):  # type: ignore[attr-defined]
            found = _PERCENT.findall(data)
            if found and self.progress is not None:
                percent, speed, left = found[-1]
                self.progress(int(percent), f"{speed.decode()}, {left.decode()} left")


def _with_partial(names: Iterable[str]) -> list[str]:
    """The files, and where rsync keeps what came of each so far."""
    paths = [PurePath(name) for name in names]
    return [str(path) for name in paths for path in (name, name.parent / _PARTIAL / name.name)]


@contextmanager
def _listed(names: Iterable[str]) -> Iterator[list[str]]:
    """The flags that name these files, and nothing but them, for the length of the block."""
    with tempfile.NamedTemporaryFile("w", prefix="fresnel-names-") as file:
        file.write("\0".join(names))
        file.flush()
        yield ["--from0", "--no-recursive", "--no-dirs", f"--files-from={file.name}"]


def _versions(folder: Path, names: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """By name, what tells a file that rsync has written from the one before.

    It never writes into one that is there.
    """
    found = statuses_of(folder, names).items()
    return {name: (known.st_ino, known.st_size, known.st_mtime_ns) for name, known in found}


def make_copier(ssh: Ssh, notify: Callable[[str], None] = lambda _: None) -> Copier:
    """rsync where both sides have it and the shell there is silent; else a stream of our own."""
    if ssh.host.has_rsync and _has_rsync():
        return _RsyncElseStream(ssh, notify)
    return StreamCopier(ssh, notify)


class _RsyncElseStream(Copier):
    """rsync until the shell there turns out to talk: our own stream passes over what it prints."""

    def __init__(self, ssh: Ssh, notify: Callable[[str], None]) -> None:
        self._rsync = RsyncCopier(ssh, notify)
        self._stream = StreamCopier(ssh, notify)
        self._is_silent = True

    def send(self, local: Path, names: Iterable[str], remote: str) -> None:
        """Bring these files of the folder `local` into the folder `remote` there."""
        known = list(names)
        self._copy(lambda copier: copier.send(local, known, remote))

    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`, of these sizes at most."""
        return self._copy(lambda copier: copier.bring(remote, sizes, local, anew))

    def _copy(self, copy: Callable[[Copier], T]) -> T:
        if self._is_silent:
            self._rsync.progress = self.progress
            try:
                return copy(self._rsync)
            except TalkingShell:
                self._is_silent = False
        return copy(self._stream)


def _has_rsync() -> bool:
    """Whether there is an rsync here that takes only the files that it asked for.

    An older one, and that of macOS, believes whatever the other end sends.
    """
    try:
        version = subprocess.run(
            ["rsync", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    found = re.search(r"version v?(\d+)\.(\d+)\.(\d+)", version.stdout)
    return found is not None and tuple(map(int, found.groups())) >= _OLDEST
