"""Runs a command at most once, whoever and however often it is asked to: `oneshot.py MARKER
COMMAND`.

The marker is made whole and locked in one step; who finds it there leaves. It stays locked while
the command runs, and MARKER.exit then holds the exit code. Standard library only; it outlives the
guard that started it.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Claim the marker, run the command in a shell, write its exit code down."""
    marker, command = sys.argv[1:3]
    draft = Path(f"{marker}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        os.fsync(descriptor)
        os.link(draft, marker)
    except FileExistsError:
        return
    finally:
        draft.unlink()
    code = subprocess.call(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL)
    draft.write_text(f"{code}\n")
    draft.replace(f"{marker}.exit")


if __name__ == "__main__":
    main()
