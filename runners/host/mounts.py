"""What kind of disk a folder is on: one of this machine, or one that several machines share."""

import re
from functools import lru_cache
from pathlib import Path

NETWORK = re.compile(r"nfs|cifs|smb|lustre|beegfs|gpfs|ceph|fuse\.sshfs|afs|glusterfs|9p")
"""The kinds that lie on another machine, as the kernel calls them."""


def filesystem_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The kind of file system that `path` is on; empty when the system does not say."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    place, best, kind = str(path.resolve()), "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split(" ")[4].replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split(" ")[0]
    return kind


@lru_cache(maxsize=8)
def is_network_folder(path: Path) -> bool:
    """True where what another machine writes into `path` may be seen here a while later."""
    return NETWORK.match(filesystem_of(path)) is not None
