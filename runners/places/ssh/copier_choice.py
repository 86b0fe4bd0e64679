"""Which way of copying a machine and this one both know."""

import re
import subprocess
from collections.abc import Callable

from runners.places.ssh.copying import Copier
from runners.places.ssh.rsync import RsyncCopier
from runners.places.ssh.ssh import Ssh
from runners.places.ssh.stream import StreamCopier

_OLDEST = (3, 2, 5)


def make_copier(ssh: Ssh, notify: Callable[[str], None] = lambda _: None) -> Copier:
    """rsync where both sides have it; else a stream of our own."""
    if ssh.host.has_rsync and _has_rsync():
        return RsyncCopier(ssh, notify)
    return StreamCopier(ssh, notify)


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
