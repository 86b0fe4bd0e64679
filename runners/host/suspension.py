"""When this machine was suspended: of the boot's two clocks one counts that time, one does not.

CLOCK_BOOTTIME runs on in suspend, CLOCK_MONOTONIC stands still (clock_gettime(2)): what they differ
by grows with each suspend. Nobody runs meanwhile, so it is noticed afterwards. Standard library
only.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from runners.host.clock import Moment, moment_now, seconds_between
from runners.host.files import read_json, replace

_LEAST_NS = 10**9
"""The two clocks are not read at the same instant."""
_MOST = 500


class Suspension(NamedTuple):
    """A time in suspend: for how many nanoseconds, and by which nanosecond of the boot it was over.

    `after` is a nanosecond of the boot at which it had not been noticed yet.
    """

    after: int
    until: int
    lasted: int


def suspended_ns() -> int:
    """For how many nanoseconds this boot has been suspended, all together."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - now


class SuspensionWatch:
    """Notices in one process that the machine was suspended, and writes it down for all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._total = suspended_ns()
        self._noted = 0

    def poll(self) -> float:
        """Seconds in suspend since the last look of this process. Raises OSError."""
        total = suspended_ns()
        if total - self._noted >= _LEAST_NS:
            note_suspension(self._path)
            self._noted = total
        lasted = total - self._total
        if lasted < _LEAST_NS:
            return 0.0
        self._total = total
        return lasted / 1e9


def note_suspension(path: Path) -> None:
    """Write down in `path` what it does not have yet of this boot. Raises OSError."""
    now, total = moment_now(), suspended_ns()
    if total < _LEAST_NS:
        return
    known, known_total, looked = _read(path, now.boot)
    if total - known_total < _LEAST_NS:
        return
    found = Suspension(looked, now.boot_ns or 0, total - known_total)
    content = {"boot": now.boot, "total_ns": total, "found": [*known, found][-_MOST:]}
    replace(path, json.dumps(content).encode(), sync=False)


def read_suspensions(path: Path) -> list[Suspension]:
    """The times in suspend of this boot that were noticed, oldest first."""
    return _read(path, moment_now().boot)[0]


def suspended_between(earlier: Moment, later: Moment, found: Sequence[Suspension]) -> float:
    """Seconds between two moments of this boot that the machine was suspended.

    Where a moment lies between two looks, all of what was found by then may have followed it.
    """
    if earlier.boot != later.boot or earlier.boot_ns is None or later.boot_ns is None:
        return 0.0
    total = 0
    for suspension in found:
        window = min(suspension.until, later.boot_ns) - max(suspension.after, earlier.boot_ns)
        total += max(0, min(suspension.lasted, window))
    return total / 1e9


def awake_between(earlier: Moment, later: Moment, found: Sequence[Suspension]) -> float:
    """Seconds between two moments in which this machine was not suspended."""
    return max(0.0, seconds_between(earlier, later) - suspended_between(earlier, later, found))


def _read(path: Path, boot: str) -> tuple[list[Suspension], int, int]:
    """What was found in this boot, how much all together, and the last look that found any."""
    content = read_json(path) or {}
    try:
        if content["boot"] != boot:
            return [], 0, 0
        found = [Suspension(*map(int, entry)) for entry in content["found"]]
        return found, int(content["total_ns"]), found[-1].until if found else 0
    except (KeyError, TypeError, ValueError):
        return [], 0, 0
