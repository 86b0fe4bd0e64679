"""Moments that survive a changed clock: wall time, boot and its own time. Standard library only."""

import time
from typing import NamedTuple

from runners.host.identity import boot_id

LONGEST_NS = 1 << 62
"""Over a century; what is longer comes from a damaged file, and may have any number of digits."""
LAST_MOMENT = 253_370_764_800.0
"""1 January 9999: Python has no dates after that year."""


class Moment(NamedTuple):
    """Unix seconds by the wall clock, the boot, and nanoseconds since it began, or None."""

    wall: float
    boot: str = ""
    boot_ns: int | None = None


def moment_now() -> Moment:
    """This moment, by both clocks; suspended time counts."""
    # BOOTTIME, not MONOTONIC: time in suspend counts, because the machine is paid for all the same.
    return Moment(time.time(), boot_id(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def seconds_between(earlier: Moment, later: Moment) -> float:
    """Seconds from one moment to another, by the boot's time if they share one; never negative."""
    if (
        earlier.boot
        and earlier.boot == later.boot
        and earlier.boot_ns is not None
        and later.boot_ns is not None
    ):
        return min(max(0, later.boot_ns - earlier.boot_ns), LONGEST_NS) / 1e9
    return max(0.0, later.wall - earlier.wall)


def local_time(moment: float, form: str) -> str:
    """A moment (unix seconds) in `form` by the local clock; empty for one no calendar has."""
    try:
        return time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return ""
