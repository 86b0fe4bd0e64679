"""Which body of a run's job owns the run, where the locks of another node cannot be trusted.

Each that begins replaces `owner.json` of the run by its own name: the last one owns it. One that
finds another's name there ends its program, records nothing, and says so in `owner.left`. The new
one waits for that before it acts. Standard library only.
"""

import os
import time
from contextlib import suppress

from runners.host.files import read_json, read_text, replace, write_json
from runners.host.identity import boot_id, host_name
from runners.state.layout import RunDirectory

LOOKS_EVERY_S = 5.0
LEAVES_WITHIN_S = 100.0
"""So long the one before has to see that it is superseded, and to end its program.

A name that is read by opening its file is of now on NFS too; a listing may be a minute old there.
"""
_POLL_S = 0.5
_OF_JOB = ("job_id", "restart_count")


class Superseded(Exception):
    """Another body of the run's job has begun since: nothing of the run is ours any more."""


class JobOwner:
    """A claim to a run: that of this process, or the one that was there when it looked."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._before = read_json(run.owner) or {}
        self._name = str(self._before.get("name", ""))

    def take(self, within_s: float = LEAVES_WITHIN_S) -> None:
        """Own the run, once the one before has left it, is dead, or has had its time.

        Raises OSError, and Superseded where another has begun meanwhile.
        """
        before = self._name
        self._name = f"{host_name()}-{os.getpid()}-{os.urandom(8).hex()}"
        job = {name: os.environ.get(f"SLURM_{name.upper()}", "") for name in _OF_JOB}
        here = {"host": host_name(), "boot_id": boot_id(), "pid": os.getpid(), "time": time.time()}
        write_json(self._run.owner, {"name": self._name, **here, **job})
        # On this very machine locks are trusted: we have it, so that one is dead.
        is_here = all(self._before.get(key) == here[key] for key in ("host", "boot_id"))
        until = time.monotonic() + (0.0 if is_here or not before else within_s)
        while read_text(self._run.owner_left) != before and time.monotonic() < until:
            self.check()
            time.sleep(_POLL_S)
        self.check()

    def check(self) -> None:
        """Raise Superseded where another owns the run by now; before anything is done to it."""
        found = read_json(self._run.owner)
        # A file that cannot be read now says nothing.
        if found is not None and found.get("name") != self._name:
            raise Superseded(str(found.get("host", "")))

    def leave(self) -> None:
        """Say that this process does nothing more to the run."""
        with suppress(OSError):  # whoever comes waits its time then
            replace(self._run.owner_left, self._name.encode())
