"""Ctrl+Z: whether there is a shell to come back to."""

import os
from pathlib import Path


def has_job_control() -> bool:
    """Whether a shell of this terminal session would see us stop, and could say `fg`.

    Where the panel is all that runs in a terminal (`ssh -t host fresnel-tui`, a container) nobody
    could: POSIX calls such a process group orphaned, and a panel stopped in it would stand still
    for ever.
    """
    group, session, pid = os.getpgrp(), os.getsid(0), os.getpid()
    while pid > 1:
        pid = _parent(pid)
        try:
            if os.getsid(pid) != session:
                return False
            if os.getpgid(pid) != group:
                return True
        except OSError:
            return False
    return False


def _parent(pid: int) -> int:
    """The pid of a process's parent; 0 when it cannot be told."""
    try:
        # From the last bracket on: a program's name may hold blanks and brackets itself.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
