"""When a run was alive last whose end nobody saw: by the boot's clock wherever that is known."""

import json
from collections.abc import Sequence

from runners.host.clock import Moment
from runners.host.exit_status import read_exit_status
from runners.host.files import modified_at, read_tail
from runners.state.layout import RunDirectory
from runners.state.records import RecordFields

_SIGNS = ("output.log", "events.jsonl", "usage.json", "exit")
_BETWEEN_LINES_S = 20.0
"""Twice what is between two lines of gpus.jsonl, which have both clocks."""
_SAME_CLOCK_S = 1.0


def last_sign(run: RunDirectory, record: RecordFields, now: Moment) -> Moment | float:
    """The last sign of life, not before its start: unix seconds where the boot's time is unknown.

    A program's end is exact by its waiter. Files have wall times: they are understood by what was
    noted by both clocks, before and after, as long as those agree.
    """
    exited = read_exit_status(run.exit)
    if exited is not None and exited.moment is not None:
        return exited.moment
    started = float(record.get("started") or 0.0)
    began = Moment(*(record.get("began") or (started,)))
    signs = [modified_at(run.path / name) for name in _SIGNS]
    # An attempt after a boot has its lines by another boot's time than it began by.
    line = _last_line(run, began) if record.get("attempt", 1) == 1 else None
    return place_signs(began, line, [sign for sign in signs if sign > 0.0], now)


def place_signs(
    began: Moment, line: Moment | None, signs: Sequence[float], now: Moment
) -> Moment | float:
    """The last of wall times (`signs`) of a run that began and was noted in `line`."""
    latest = max([began.wall, *([line.wall] if line is not None else []), *signs])
    if began.boot_ns is None:
        return latest
    if line is not None:
        # A file that is older than the line may have a later time, if the clock was set back.
        signs = [sign for sign in signs if not _is_before(sign, began, line)]
        after = max((sign - line.wall for sign in signs), default=0.0)
        if after <= _BETWEEN_LINES_S:
            return _later(line, max(0.0, after))
    found = (began, line, now if _is_later(began, now) else None)
    noted = [moment for moment in found if moment is not None]
    offsets = [moment.wall - (moment.boot_ns or 0) / 1e9 for moment in noted]
    is_one_clock = max(offsets) - min(offsets) <= _SAME_CLOCK_S
    if len(noted) < 2 or not is_one_clock or latest > noted[-1].wall + _SAME_CLOCK_S:
        return latest
    return _later(began, max(0.0, latest - began.wall))


def _is_before(sign: float, began: Moment, line: Moment) -> bool:
    """Whether a time is before a line by the clock that the run began by, and not just after it."""
    if 0.0 <= sign - line.wall <= _BETWEEN_LINES_S:
        return False
    return (began.boot_ns or 0) + (sign - began.wall) * 1e9 <= (line.boot_ns or 0)


def _is_later(began: Moment, now: Moment) -> bool:
    return now.boot == began.boot and now.boot_ns is not None


def _later(moment: Moment, seconds: float) -> Moment:
    # A double holds no more than microseconds of a wall time.
    up_ns = (moment.boot_ns or 0) + round(seconds * 1e6) * 1000
    return Moment(moment.wall + seconds, moment.boot, up_ns)


def _last_line(run: RunDirectory, began: Moment) -> Moment | None:
    """The newest whole line of gpus.jsonl, which says both times; None where there is none."""
    *_, line = (b"", *read_tail(run.path / "gpus.jsonl", 1 << 16).split(b"\n")[:-1])
    try:
        value = json.loads(line)
        wall, up_ns = float(value["time"]), round(float(value["uptime"]) * 1e9)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return Moment(wall, began.boot, up_ns) if up_ns >= (began.boot_ns or 0) else None
