"""Starting the guard that is set, when none runs: by front ends, and by runs' supervisors."""

import os
import time
from pathlib import Path

from runners.host.files import append_event, open_private
from runners.host.helpers import command, marked
from runners.host.keep_alive import KeepAlive
from runners.host.locks import is_held
from runners.state.layout import StateDirectory

_ANEW_S = 2.0


def guard_lock(state: StateDirectory) -> Path:
    """The lock that is held while a guard lives."""
    return state.guard / "guard.lock"


def ensure_guard(state: StateDirectory) -> bool:
    """Start the guard if it is set and does not run; True when one was started. Raises OSError."""
    if not (state.guard / "guard.json").exists() or is_held(guard_lock(state)):
        return False
    keep_alive = KeepAlive(guard_lock(state), lambda: _start(state), _ANEW_S)
    now = time.monotonic()
    if keep_alive.wait_s(now) > 0:
        return False
    keep_alive.start(now)
    return True


def _start(state: StateDirectory) -> None:
    from runners.host.detach import detach  # most looks find a guard, or none that is set

    # The pid in the unit's name: systemd may still know the unit of a guard that has just died.
    unit = f"fresnel-guard-{state.guard.name}-{os.getpid()}"
    with open_private(state.guard / "guard.log") as log:
        argv = command("guard", state.root)
        environment = marked(os.environ, "guard")
        detached = detach(unit, argv, environment, [], log, state.host / "scope.json")
    append_event(state.guard / "guard.jsonl", "detached", **detached.fields())
