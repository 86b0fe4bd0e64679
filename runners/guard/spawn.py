"""Start the guard that is set, when none runs: by any front end, and by any run's supervisor."""

import os
import time
from pathlib import Path

from runners.host.detach import detach
from runners.host.files import append_event, open_private
from runners.host.helpers import command
from runners.host.locks import is_held
from runners.state.layout import StateDirectory

_ANEW_S = 2.0


def guard_lock(state: StateDirectory) -> Path:
    """Held while a guard lives."""
    return state.guard / "guard.lock"


def ensure_guard(state: StateDirectory) -> bool:
    """Start the guard that is set and does not run, out of reach of the terminal; True when one
    was started.
    """
    if (
        not (state.guard / "guard.json").exists()
        or is_held(guard_lock(state))
        or _died_young(state)
    ):
        return False
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("FRESNEL_RUN_")
    }
    unit = f"fresnel-guard-{state.guard.name}-{os.getpid()}"
    with open_private(state.guard / "guard.log") as log:
        words = command("guard", state.root)
        detached = detach(unit, words, environment, [], log, state.host / "scope.json")
    append_event(state.guard / "guard.jsonl", "detached", **detached.fields())
    return True


def _died_young(state: StateDirectory) -> bool:
    """True when the last one has only just begun: it writes its pid into the lock file."""
    try:
        return 0 <= time.time() - guard_lock(state).stat().st_mtime < _ANEW_S
    except OSError:
        return False
