"""One line of time for moments of several boots: nanoseconds that no change of a clock stretches
within a boot.

A boot's time is laid beside the wall clock where the latest moment known of that boot puts it, to
a second: a clock that was corrected during a boot is right afterwards, and everything in that boot
moves along with it.
"""

from collections.abc import Iterable

from runners.host.clock import Moment

SECOND = 10**9


def wall_ns(seconds: float) -> int:
    """Unix seconds as whole nanoseconds (rounded to the microsecond: a double holds no more)."""
    return round(seconds * 1_000_000) * 1_000


class Timeline:
    """Places moments on unix nanoseconds."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        self._began: dict[str, int] = {}
        for moment in sorted(moments, key=lambda one: one.boot_ns or 0):
            if moment.boot and moment.boot_ns is not None:
                began = wall_ns(moment.wall) - moment.boot_ns
                known = self._began.setdefault(moment.boot, began)
                # The two clocks are never read at one instant: milliseconds are no correction, and
                # move nothing.
                if abs(began - known) > SECOND:
                    self._began[moment.boot] = began

    def place(self, moment: Moment) -> int:
        """Where `moment` stands; by its wall time when nothing else is known of it."""
        if moment.boot_ns is not None and moment.boot in self._began:
            return self._began[moment.boot] + moment.boot_ns
        return wall_ns(moment.wall)

    def next_boot(self, boot: str) -> int | None:
        """When the boot after `boot` began, at which everything of `boot` had ended; None when
        none is known.
        """
        own = self._began.get(boot)
        later = [began for began in self._began.values() if own is not None and began > own]
        return min(later, default=None)
