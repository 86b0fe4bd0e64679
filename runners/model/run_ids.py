"""What a run is called: an id that sorts by time, reads well, and is one component of a path."""

import os
import time
from collections.abc import Mapping

from runners.host.clock import next_second
from runners.model.late_pattern import late_pattern

_READABLE = 40
_STAMP, _STAMP_LENGTH = "%Y%m%d-%H%M%S", 15
_NAMED = rf"\d{{8}}-\d{{6}}-([A-Za-z0-9][A-Za-z0-9._-]{{0,{_READABLE - 1}}}?)-[0-9a-f]{{4}}"
_ID = late_pattern(_NAMED)
_WITHIN = late_pattern(rf"(?<![/\w]){_NAMED}\b")
_OTHERS = late_pattern(r"[^A-Za-z0-9._]+")


def new_run_id(name: str, stamp: str = "") -> str:
    """An id for a run of this name: 20261120-231502-gaussian-validate-7f3a."""
    readable = _OTHERS.sub("-", name).strip("-._")[:_READABLE] or "run"
    return f"{stamp or launch_stamp()}-{readable}-{os.urandom(2).hex()}"


def launch_stamp(newest: str = "") -> str:
    """The time with which the ids of a launch begin, later than that of the run `newest`.

    Where the clock has been set back since, or summer time has ended, it is a second later.
    """
    now, before = time.strftime(_STAMP), stamp_of(newest)
    if before < now:
        return now  # reading a time takes longer than all the rest
    day, clock = f"{before[:4]}-{before[4:6]}-{before[6:8]}", f"{before[9:11]}:{before[11:13]}"
    return max(now, next_second(f"{day} {clock}:{before[13:]}", _STAMP))


def stamp_of(run_id: str) -> str:
    """The time with which a run's id begins, by which runs are in order of launch; else empty."""
    return run_id[:_STAMP_LENGTH] if is_run_id(run_id) else ""


def is_run_id(text: str) -> bool:
    """Whether a run may be called so: nothing else ever names a folder or a file of a run's."""
    return _ID.fullmatch(text) is not None


def by_names(text: str, names: Mapping[str, str] | None = None) -> str:
    """A text that names runs by their ids, with their names instead.

    They are called as `names` has them by id, others as the id has it.
    """
    known = names or {}
    return _WITHIN.sub(lambda found: known.get(found[0]) or found[1], text)
