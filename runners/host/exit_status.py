"""What a run's waiter leaves: the exit status, and when that was by the boot's clock too.

Standard library only.
"""

from pathlib import Path
from typing import NamedTuple

from runners.host.clock import LAST_MOMENT, Moment
from runners.host.files import read_plain

MOST_BYTES = 256


class ExitStatus(NamedTuple):
    """An exit status, and when it was; None where that cannot be understood."""

    code: int
    moment: Moment | None = None


def spell_exit_status(code: int, moment: Moment) -> bytes:
    """The file's one line: `CODE WALL BOOT NANOSECONDS`."""
    return f"{code} {moment.wall:.6f} {moment.boot} {moment.boot_ns}\n".encode()


def read_exit_status(path: Path) -> ExitStatus | None:
    """The exit status in the file at `path`; None while there is none that can be understood."""
    try:
        code, *when = read_plain(path, MOST_BYTES).decode("ascii").split()
        status = ExitStatus(int(code))
    except (OSError, ValueError):
        return None
    try:
        wall, boot, boot_ns = when
        moment = Moment(float(wall), boot, int(boot_ns))
    except (ValueError, OverflowError):
        return status
    return status._replace(moment=moment) if abs(moment.wall) < LAST_MOMENT else status
