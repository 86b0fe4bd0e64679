"""The local backend: a run of this host, owned by a detached supervisor."""

import json
import os
import signal
from collections.abc import Mapping, Sequence

from runners.host.detach import detach
from runners.host.files import append_event, open_private
from runners.host.helpers import command
from runners.host.locks import is_held
from runners.model.errors import FresnelError
from runners.state.layout import RunDirectory, StateDirectory


def spawn_supervisor(
    run: RunDirectory, environment: Mapping[str, str], descriptors: Sequence[int]
) -> None:
    """Start the supervisor of `run`, out of reach of the terminal and if possible the login; it
    inherits `descriptors`.

    Isolated and without site packages (-I -S): nothing in the run's directory or environment
    changes it, and it stays small. Returns when it has detached.
    """
    words = command("supervisor", run.path, *map(str, descriptors))
    unit = f"fresnel-{run.id}" if descriptors else f"fresnel-{run.id}-adopted-{os.getpid()}"
    remembered = StateDirectory(run.path.parent.parent).host / "scope.json"
    with open_private(run.supervisor_log) as log:
        detached = detach(unit, words, environment, descriptors, log, remembered)
    append_event(run.supervisor_events, "detached", **detached.fields())
    if detached.code:
        raise FresnelError(f"the supervisor of {run.id} did not start", f"see {run.supervisor_log}")


def poke_supervisor(run: RunDirectory) -> None:
    """Tell a run's supervisor to look at its directory; what it must know stands there, so a lost
    poke is late only.
    """
    try:
        pid = json.loads(run.state.read_bytes())["supervisor_pid"]
        # The holder of the lock wrote this pid: while the lock is held, it is that process.
        if is_held(run.supervisor_lock):
            os.kill(pid, signal.SIGUSR1)
    except (OSError, ValueError, KeyError, TypeError):
        pass
