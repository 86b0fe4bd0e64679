"""A run's supervisor sees to it that the guard lives: nobody else may be there to start it again.

Standard library only: the supervisor imports it. The guard itself is started by a short-lived
process.
"""

import time

from runners.host import helpers
from runners.host.locks import is_held
from runners.state.layout import StateDirectory

_ANEW_S = 2.0


class GuardWatch:
    """Looks whether the guard that is set lives, and has it started again when it does not."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._last = float("-inf")

    def mind(self) -> None:
        """Have the guard started when it is set and none lives; cheap enough for every wake."""
        folder = self._state.guard
        if not (folder / "guard.json").exists() or is_held(folder / "guard.lock"):
            return
        if time.monotonic() - self._last >= _ANEW_S:
            self._last = time.monotonic()
            try:
                helpers.spawn("guard", self._state.root)
            except OSError:
                pass  # no process to be had: tried again at the next wake
