"""Moments that survive a changed clock: wall time, boot and its own time. Standard library only."""

import time
from typing import NamedTuple

from runners.host.identity import boot_id, up_ns

LONGEST_NS = 1 << 62
"""Over a century; what is longer comes from a damaged file, and may have any number of digits."""
LAST_MOMENT = 253_370_764_800.0
"""1 January 9999: Python has no dates after that year."""


_CLOCKS_ARE_SET = 1_577_836_800.0
"""1 January 2020: an earlier moment is that of a clock that nobody has set since power was cut."""
_AGREES_S = 60.0
"""File servers' and other machines' clocks differ by so much at most."""
_NAMED_DAYS_S = 6 * 86_400.0
"""A day of the week says which day within so long."""
_STEP_S = 2.0
"""Less than this is a clock that is kept right little by little."""


class Moment(NamedTuple):
    """Unix seconds by the wall clock, the boot, and nanoseconds since it began, or None."""

    wall: float
    boot: str = ""
    boot_ns: int | None = None


def moment_now() -> Moment:
    """This moment, by both clocks; suspended time counts."""
    # BOOTTIME, not MONOTONIC: time in suspend counts, because the machine is paid for all the same.
    return Moment(time.time(), boot_id(), up_ns())


def moment_after(moment: Moment, seconds: float) -> Moment:
    """The moment so many seconds after another, by both clocks."""
    # A double holds no more than microseconds of a wall time.
    up_ns = None if moment.boot_ns is None else moment.boot_ns + round(seconds * 1e6) * 1000
    return Moment(moment.wall + seconds, moment.boot, up_ns)


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


def elapsed(earlier: Moment, later: Moment) -> float | None:
    """Seconds from one moment to another, by the boot's time if they share one; None: not known.

    Between two boots there is only the wall clock, which says nothing where it went back, or was
    set for the first time.
    """
    known = earlier.boot_ns is not None and later.boot_ns is not None
    if known and earlier.boot and earlier.boot == later.boot:
        return seconds_between(earlier, later)
    return age(earlier.wall, later.wall)


def age(moment: float, now: float) -> float | None:
    """Seconds since a moment of the wall clock (unix s); None for one that cannot be true."""
    was_set_between = moment < _CLOCKS_ARE_SET <= now
    return None if was_set_between or now < moment - _AGREES_S else max(0.0, now - moment)


class WallClock:
    """Whether the wall clock was set, by the boot's own time, which no clock changes."""

    def __init__(self, since: Moment | None = None) -> None:
        self._ahead = self._now()
        if since is not None and since.boot_ns is not None and since.boot == boot_id():
            self._ahead = since.wall - since.boot_ns / 1e9

    def was_set(self) -> float:
        """By how many seconds it was set since the last call, or `since`; 0.0 where it was not."""
        before, self._ahead = self._ahead, self._now()
        by = self._ahead - before
        return by if abs(by) > _STEP_S else 0.0

    def _now(self) -> float:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def next_second(text: str, form: str) -> str:
    """The second after a moment in ISO 8601, in `form`; empty where the text is no moment."""
    from datetime import datetime, timedelta  # supervisors, which live for days, do without

    try:
        # Not `strptime`: what that loads takes longer than a launch for all its ids.
        return (datetime.fromisoformat(text) + timedelta(seconds=1)).strftime(form)
    except (ValueError, OverflowError):
        return ""


def time_of_day(moment: float, now: float | None = None, form: str = "%H:%M") -> str:
    """`14:08` of a moment (unix seconds) of today; of others `Fri 14:08` or `20 Nov 14:08`."""
    now = time.time() if now is None else now
    if local_time(moment, "%Y %j") == local_time(now, "%Y %j"):
        return local_time(moment, form)
    day = "%a" if abs(moment - now) < _NAMED_DAYS_S else "%d %b"
    return local_time(moment, f"{day} {form}")


def local_time(moment: float, form: str) -> str:
    """A moment (unix seconds) in `form` by the local clock; empty for one no calendar has."""
    try:
        return time.strftime(form, time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return ""
