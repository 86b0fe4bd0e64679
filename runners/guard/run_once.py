"""Runs a command at most once for each try: `run_once.py MARKER TRY COMMAND BOOT`.

The marker is locked while the command runs, and says which try began, in which boot, and
how it ended; whoever finds it locked, or that try begun, exits. It is written in place,
because the disk may be full. Standard library only; it outlives the guard that started it,
and exits as its command does.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time

_LENGTH = 512


def main() -> int:
    """Claim the try, run the command in a shell, write down its exit code."""
    marker, attempt, command, boot = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _lock(descriptor) or _attempt(descriptor) >= attempt:
        return 0
    claim: dict[str, object] = {
        "attempt": attempt,
        "pid": os.getpid(),
        "boot": boot,
        "exit": None,
    }
    # Before the command: if this process is killed now, the command may not have run, but it never
    # runs twice. The end command may destroy a machine.
    _write(descriptor, claim)
    # O_CLOEXEC: the lock ends with this process, not with what the command left running.
    code = subprocess.call(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL)
    _write(descriptor, {**claim, "exit": code})
    return code


def _lock(descriptor: int) -> bool:
    for _ in range(100):  # a probe holds the lock for microseconds
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.005)
    return False


def _attempt(descriptor: int) -> int:
    try:
        return int(json.loads(os.pread(descriptor, _LENGTH, 0))["attempt"])
    except (ValueError, KeyError, TypeError):
        return 0


def _write(descriptor: int, claim: "dict[str, object]") -> None:
    # Where not even reserved blocks can be written, the lock alone is the claim.
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, json.dumps(claim).encode().ljust(_LENGTH), 0)
        os.fsync(descriptor)


if __name__ == "__main__":
    sys.exit(main())
