"""The keeper: a second process, all of it loaded, that becomes the guard when the guard dies.

It waits in the kernel for the guard's lock, so a death wakes it at once, and nothing has to be
started before the next guard looks: on a busy machine a start takes many seconds.
"""

import os
import sys
import time
from pathlib import Path

from runners.guard.keeper import enter, guard_lock, is_set, keeper_lock
from runners.host.keep_alive import seconds_since_begun
from runners.host.locks import await_release, claim
from runners.state.layout import StateDirectory

_ANEW_S = 1.0
"""At most one guard a second: each needs the time to start its own keeper."""
_UNUSUAL_S = 1.0


def stand_by(state: StateDirectory) -> int | None:
    """Wait for the guard to die; the descriptor of its lock, now ours, or None once it is lifted.

    None at once where another keeper waits.
    """
    mine = claim(keeper_lock(state))
    if mine is None:
        return None
    import runners.guard.daemon  # noqa: F401 (loaded while there is time)

    try:
        while is_set(state):
            taken = _take_place(state)
            if taken is not None:
                return taken
        return None
    finally:
        os.close(mine)  # as the guard it needs another keeper


def _take_place(state: StateDirectory) -> int | None:
    lock = guard_lock(state)
    try:
        await_release(lock)
        time.sleep(max(0.0, _ANEW_S - seconds_since_begun(lock)))
        # None: a front end or a supervisor was quicker.
        return claim(lock) if is_set(state) else None
    except OSError:
        time.sleep(_UNUSUAL_S)  # no lock to be had: tried again, as long as a guard is set
        return None


def main() -> None:
    """Be the keeper of the guard of the state folder named on the command line, then the guard."""
    state = StateDirectory(Path(sys.argv[-1]))
    if not is_set(state):
        return  # lifted, or all of the state removed: systemd need not start it again
    enter(state)
    lock = stand_by(state)
    if lock is not None:
        from runners.guard.daemon import watch

        watch(state, lock)
