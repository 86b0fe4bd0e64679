"""Start the guard that is set, when none runs: by any front end, and by any run's supervisor."""

import os
import sys
import time
from pathlib import Path

from runners.backends.detaching import detach
from runners.host.locks import is_held
from runners.model.paths import ROOT, RunDirectory, StateDirectory

_ANEW_S = 2.0
_CALL = "import sys; sys.path.insert(0, sys.argv[1]); from runners.lifecycle.guarding import main; main()"


def guard_lock(state: StateDirectory) -> Path:
    """Held while a guard lives."""
    return state.guard / "guard.lock"


def ensure_guard(state: StateDirectory) -> bool:
    """Start the guard that is set and does not run, out of reach of the terminal; True when one was started."""
    if not (state.guard / "guard.json").exists() or is_held(guard_lock(state)) or _died_young(state):
        return False
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRESNEL_RUN_")}
    # -E and -P: nothing of the environment or the directory it is started in decides what is imported.
    command = [sys.executable, "-E", "-P", "-c", _CALL, str(ROOT), str(state.root)]
    with open(state.guard / "guard.log", "ab", opener=_open_private) as log:
        detach(RunDirectory(state.guard), command, environment, [], log)
    return True


def _died_young(state: StateDirectory) -> bool:
    """True when the last one has only just begun: it writes its pid into the lock file."""
    try:
        return 0 <= time.time() - guard_lock(state).stat().st_mtime < _ANEW_S
    except OSError:
        return False


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
