"""What a panel keeps on disk while it is open, beside that of other panels of its host."""

import os
import shutil
import time
from pathlib import Path

from runners.host.files import modified_at, names_in
from runners.host.identity import host_name

_LONG_AGO_S = 7 * 86400.0
_LONGEST_PID = 7


def own_folder(base: Path) -> Path:
    """This process's folder below `base`, not made yet; what gone ones of this host left is gone.

    Hosts with a shared home see each other's, and not each other's processes. Version 0.3 had no
    folder for each host: of those, what is old belongs to nobody.
    """
    ours = base / host_name()
    for name in names_in(ours):
        if not name.isdigit() or not _lives(name):
            shutil.rmtree(ours / name, ignore_errors=True)
    for name in names_in(base):
        is_of_process = name.isdigit() and len(name) <= _LONGEST_PID and not _lives(name)
        if is_of_process and time.time() - modified_at(base / name) > _LONG_AGO_S:
            shutil.rmtree(base / name, ignore_errors=True)
    return ours / str(os.getpid())


def _lives(pid: str) -> bool:
    return Path("/proc", pid).exists()
