"""One timeline for moments of several boots, in nanoseconds that no clock change distorts.

A boot's time is placed where the latest known moment of that boot puts it beside the wall
clock, to a second: a clock that was corrected during a boot is right afterwards, and everything
in that boot moves along with it.
"""

from collections.abc import Iterable

from runners.cost.rates import SECOND_NS
from runners.host.clock import LAST_MOMENT, LONGEST_NS, Moment


def uptime_ns(moment: Moment) -> int | None:
    """A moment's nanoseconds since its boot; None where they are not known, or absurd."""
    known = moment.boot_ns
    return known if known is not None and 0 <= known <= LONGEST_NS else None


def wall_ns(seconds: float) -> int:
    """Unix seconds as whole nanoseconds (rounded to the microsecond: a double holds no more)."""
    # One record with an absurd time must not end the sums over all runs.
    return round(min(max(seconds, 0.0), LAST_MOMENT) * 1_000_000) * 1_000


class Timeline:
    """Places moments on unix nanoseconds."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        # By boot: since which of its nanoseconds its start was at which wall time, oldest first.
        self._clocks: dict[str, list[tuple[int, int]]] = {}
        for moment in sorted(moments, key=lambda moment: moment.boot_ns or 0):
            uptime = uptime_ns(moment)
            if moment.boot and uptime is not None:
                began = wall_ns(moment.wall) - uptime
                known = self._clocks.setdefault(moment.boot, [(uptime, began)])
                # The clocks are not read at the same instant: some milliseconds are no correction.
                if abs(began - known[-1][1]) > SECOND_NS:
                    known.append((uptime, began))
        self._began = {boot: clocks[-1][1] for boot, clocks in self._clocks.items()}

    def place(self, moment: Moment) -> int:
        """Where `moment` is on the timeline; by its wall time when nothing else is known of it."""
        uptime = uptime_ns(moment)
        if uptime is not None and moment.boot in self._began:
            return self._began[moment.boot] + uptime
        return wall_ns(moment.wall)

    def place_in_boot(self, wall: float, since: Moment, until: Moment) -> int:
        """Where a wall time (unix s) read between two moments is, by the clock known by then."""
        uptime = uptime_ns(since)
        if uptime is None or since.boot not in self._clocks:
            return wall_ns(wall)
        latest = uptime_ns(until) if until.boot == since.boot else None
        chosen = wall_ns(wall) - (wall_ns(since.wall) - uptime)
        for begun, clock in self._clocks[since.boot]:
            up = wall_ns(wall) - clock
            if begun < up and uptime <= up and (latest is None or up <= latest):
                chosen = up
        return self._began[since.boot] + chosen

    def next_boot(self, boot: str) -> int | None:
        """When the boot after `boot` began, by which all of `boot` had ended; None if unknown."""
        own = self._began.get(boot)
        later = [began for began in self._began.values() if own is not None and began > own]
        return min(later, default=None)
