"""Moments that a clock set back or forward does not falsify: the boot and its own time stand
beside the wall time.

Standard library only: the supervisor imports it.
"""

import time
from typing import NamedTuple

from runners.host.identity import boot_id


class Moment(NamedTuple):
    """Unix seconds by the wall clock; the boot, and nanoseconds since it began (None where that is
    not known).
    """

    wall: float
    boot: str = ""
    boot_ns: int | None = None


def moment_now() -> Moment:
    """This moment, by both clocks; suspended time counts."""
    return Moment(time.time(), boot_id(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def seconds_between(earlier: Moment, later: Moment) -> float:
    """Seconds from one moment to another, never negative: by the boot's own time within a boot,
    else by wall time.
    """
    if (
        earlier.boot
        and earlier.boot == later.boot
        and earlier.boot_ns is not None
        and later.boot_ns is not None
    ):
        return max(0, later.boot_ns - earlier.boot_ns) / 1e9
    return max(0.0, later.wall - earlier.wall)
