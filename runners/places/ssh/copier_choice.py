"""Which way of copying a machine and this one both know."""

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from runners.places.ssh.copying import Copied, Copier
from runners.places.ssh.rsync import RsyncCopier, TalkingShell
from runners.places.ssh.ssh import Ssh
from runners.places.ssh.stream import StreamCopier

_OLDEST = (3, 2, 5)


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
        names = list(names)
        if self._is_silent:
            self._rsync.progress = self.progress
            try:
                return self._rsync.send(local, names, remote)
            except TalkingShell:
                self._is_silent = False
        return self._stream.send(local, names, remote)

    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Bring files of the folder `remote` into the folder `local`, of these sizes at most."""
        if self._is_silent:
            self._rsync.progress = self.progress
            try:
                return self._rsync.bring(remote, sizes, local, anew)
            except TalkingShell:
                self._is_silent = False
        return self._stream.bring(remote, sizes, local, anew)


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
