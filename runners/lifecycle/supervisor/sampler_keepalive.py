"""A run that holds GPUs sees to it that they are sampled, though nobody reads: else its history
would have gaps.

Standard library only: the supervisor imports it. The sampler itself is started by a short-lived
process.
"""

import time

from runners.host import helpers
from runners.host.locks import is_held
from runners.state.layout import StateDirectory

_ANEW_S = 20.0
"""A sampler that died is followed by another at most so often, whichever run's supervisor sees to
it.
"""


class Sampling:
    """Looks whether a sampler lives, and has another one started; `wanted` only by runs that hold
    GPUs.
    """

    def __init__(self, state: StateDirectory, wanted: bool) -> None:
        self._state = state
        self._wanted = wanted
        self._last = float("-inf")

    def mind(self) -> None:
        """Have a sampler started when none lives; cheap enough for every wake."""
        if not self._wanted or is_held(self._state.sampler_lock):
            return
        now = time.monotonic()
        if now - self._last >= _ANEW_S and not self._died_young():
            self._last = now
            try:
                helpers.spawn("start-sampler", self._state.root)
            except OSError:
                pass  # no process to be had: the run matters more than its history

    def _died_young(self) -> bool:
        """True when the last sampler has only just started: every sampler writes its name into the
        lock file.
        """
        try:
            age = time.time() - self._state.sampler_lock.stat().st_mtime
        except OSError:
            return False
        return 0 <= age < _ANEW_S  # from the future: a server's clock, which tells nothing
