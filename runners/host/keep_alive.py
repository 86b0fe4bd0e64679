"""Starting a process again that died, but not too often. Standard library only."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runners.host.files import modified_at
from runners.host.locks import is_held

CHECK_EVERY_S = 20.0


class KeepAlive:
    """Calls `start` when nobody holds `lock`, at most every `every_s` seconds.

    Whoever takes the lock writes into its file, so all that watch over it count from the same
    moment. With `longest_s` the pause doubles, up to that, while what is started dies young.
    """

    def __init__(
        self,
        lock: Path,
        start: Callable[[], object],
        every_s: float,
        longest_s: float | None = None,
        young_s: float = 0.0,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._wanted = wanted
        self._lock = lock
        self._start = start
        self._every_s = every_s
        self._longest_s = every_s if longest_s is None else longest_s
        self._young_s = young_s
        self._pause_s = every_s
        self._last = float("-inf")

    def wait_s(self, now: float) -> float:
        """Seconds from `now` (monotonic) until another may be started; 0 when it may be now."""
        # Two clocks: our own attempts count by the monotonic one, those of other processes can only
        # be seen by the lock file's wall time.
        age = seconds_since_begun(self._lock)
        return max(0.0, self._last + self._pause_s - now, self._every_s - age)

    def poll(self, now: float) -> float:
        """Start another when none lives and its time has come; seconds until the next look.

        Not while systemd ends the machine or the login: what starts then only delays it.
        """
        if not self._wanted() or is_held(self._lock):
            return CHECK_EVERY_S
        wait = self.wait_s(now)
        if wait > 0:
            return wait
        from runners.host.shutdown import what_ends  # seldom needed

        if what_ends():
            return self._pause_s
        with suppress(OSError):  # no process to be had: tried again in a while
            self.start(now)
        return self._pause_s

    def ensure(self) -> bool:
        """Start another if none lives and its time has come; True when it was. Raises OSError."""
        now = time.monotonic()
        if not self._wanted() or is_held(self._lock) or self.wait_s(now) > 0:
            return False
        self.start(now)
        return True

    def pause_over(self, now: float) -> bool:
        """True when this object has started nothing for long enough, whatever others did."""
        return now - self._last >= self._pause_s

    def start(self, now: float) -> None:
        """Start another; OSError when no process can be started."""
        # Young: within `young_s` after the pause, during which nothing is started anyway.
        young = now - self._last < self._pause_s + self._young_s
        grown = min(self._longest_s, 2 * self._pause_s)
        self._pause_s = grown if young else self._every_s
        self._last = now
        self._start()


def seconds_since_begun(lock: Path) -> float:
    """Seconds since the last holder of `lock` began; infinite when that is not known."""
    began = modified_at(lock)
    age = time.time() - began
    # A time in the future comes from a file server's clock, which says nothing about the age.
    return age if began and age >= 0 else float("inf")
