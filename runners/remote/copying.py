"""Copying files to and from a machine, in whatever way it can."""

import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from runners.remote.ssh import Ssh


class Copied(NamedTuple):
    """What a copy came to: files and bytes that went over the line, and bytes there are in all."""

    files: int = 0
    bytes: int = 0
    all_bytes: int = 0


class Copier(ABC):
    """One way to copy."""

    progress: Callable[[int, str], None] | None = None
    """Called with percent and words while a copy goes on, by those ways that know."""

    @abstractmethod
    def send(
        self, local: Path, remote: str, excludes: Sequence[str] = (), dry: bool = False
    ) -> Copied:
        """Bring the file or folder `local` to the path `remote` there; `dry` only counts."""

    @abstractmethod
    def bring(self, remote: str, names: Sequence[str], local: Path, anew: bool = False) -> Copied:
        """Bring files of the folder `remote`, by their names in it, into the folder `local`."""


def make_copier(ssh: Ssh, tell: Callable[[str], None] = lambda _: None) -> Copier:
    """rsync where both sides have it; else a stream of our own."""
    from runners.remote.rsync import RsyncCopier
    from runners.remote.stream import StreamCopier

    if ssh.host.has_rsync and _has_rsync():
        return RsyncCopier(ssh, tell)
    return StreamCopier(ssh)


def _has_rsync() -> bool:
    """Whether there is an rsync here that knows what we ask of it: macOS has one that does not."""
    try:
        said = subprocess.run(["rsync", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    found = re.search(r"version v?(\d+)\.(\d+)", said.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= (3, 1)
