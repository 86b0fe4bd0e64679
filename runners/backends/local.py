"""The local backend: a run of this host, owned by a detached supervisor."""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from runners.backends.detaching import detach
from runners.host.locks import is_held
from runners.model.errors import FresnelError
from runners.model.paths import ROOT, RunDirectory

_SUPERVISE = ROOT / "runners" / "lifecycle" / "supervise.py"


def spawn_supervisor(run: RunDirectory, environment: Mapping[str, str], descriptors: Sequence[int]) -> None:
    """Start the supervisor of `run`, out of reach of the terminal and if possible the login; it inherits `descriptors`.

    Isolated and without site packages (-I -S): nothing in the run's directory or environment changes it, and
    it stays small. Returns when it has detached.
    """
    command = [sys.executable, "-I", "-S", str(_SUPERVISE), str(run.path), *map(str, descriptors)]
    with open(run.supervisor_log, "ab", opener=_open_private) as log:
        code = detach(run, command, environment, descriptors, log)
    if code:
        raise FresnelError(f"the supervisor of {run.id} did not start", f"see {run.supervisor_log}")


def poke_supervisor(run: RunDirectory) -> None:
    """Tell a run's supervisor to look at its directory; what it must know stands there, so a lost poke is late only."""
    try:
        pid = json.loads(run.state.read_bytes())["supervisor_pid"]
        # The holder of the lock wrote this pid: while the lock is held, it is that process.
        if is_held(run.supervisor_lock):
            os.kill(pid, signal.SIGUSR1)
    except (OSError, ValueError, KeyError, TypeError):
        pass


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
