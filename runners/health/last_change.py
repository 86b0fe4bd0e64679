"""When a file was written last, by the clock of the boot: one that is set changes no silence.

Time in suspend is none either: nobody could write.
"""

import time
from pathlib import Path

from runners.host.clock import Moment, seconds_between
from runners.model.run import Run


def awake_seconds() -> float:
    """Seconds since the boot, those in suspend left out."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def lifetime_of(run: Run, now: Moment) -> float | None:
    """Seconds since a run began, by the boot's clock where its record has it; None: not known."""
    record = run.record
    if record is None or record.started is None:
        return None
    return seconds_between(record.began or Moment(record.started), now)


class LastChange:
    """The last change of one file with something in it, or of the newest of several, as seen."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._seen: tuple[Path, int, int] | None = None
        self._looked: float | None = None
        self._at: float | None = None

    def seen_at(self, now: float, boot: float, most: float | None) -> float | None:
        """When it changed, in awake seconds of the boot; None while it is empty or missing.

        `now` is the moment of `boot` by the wall clock (unix s). What its time says counts between
        two looks only, where no clock can be wrong by more; at the first look no more than `most`
        seconds back.
        """
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:
            return None
        if not found.st_size:
            return None
        if (sign := (self.path, found.st_mtime_ns, found.st_size)) != self._seen:
            age = max(0.0, now - found.st_mtime)
            bound = most if self._looked is None else boot - self._looked
            self._seen, self._at = sign, boot - (age if bound is None else min(age, bound))
        self._looked = boot
        return self._at
