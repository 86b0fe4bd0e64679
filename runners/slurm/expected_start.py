"""When Slurm expects a waiting job to start, and how many wait before it: for who asks about one.

`squeue --start` has the controller plan ahead, so it is asked about a single job, once a minute at
most, whoever looks.
"""

import re
import time
from contextlib import suppress

import msgspec

from runners.host.files import replace
from runners.slurm.client import SlurmRefused, SlurmSilent, ask
from runners.state.decoding import read
from runners.state.jobs import JobRow
from runners.state.layout import StateDirectory

_KEPT_S = 60.0
_WITHIN_S = 2.0
_MOST_KEPT = 100
_MOST_ROWS = 200_000


class ExpectedStart(msgspec.Struct, frozen=True):
    """Of one job: when it was asked, when it may start (unix s), and the jobs before it.

    None is not known: `before` counts those of its partition with a higher priority, or the same
    and a smaller number, that one may see.
    """

    asked: float
    at: float | None = None
    before: int | None = None


def expected_start(state: StateDirectory, job: JobRow) -> ExpectedStart:
    """What Slurm expects of a job that waits; nothing where it does not say."""
    kept, now = read(state.expected_starts, dict[str, ExpectedStart]) or {}, time.time()
    known = kept.get(job.number)
    if known is not None and 0 <= now - known.asked < _KEPT_S:
        return known
    found = ExpectedStart(now)
    with suppress(SlurmRefused, SlurmSilent):
        output = ask(
            *("squeue", "--start", "--noheader", f"--jobs={job.number}", "--format=%S"),
            within_s=_WITHIN_S,
        )
        found = msgspec.structs.replace(found, at=read_start(output))
        waiting = ask(
            *("squeue", "--noheader", "--array", "--states=PENDING", "--format=%Q %A"),
            f"--partition={job.partition}",
            within_s=_WITHIN_S,
        )
        found = msgspec.structs.replace(found, before=count_before(waiting, job))
    newest = sorted({**kept, job.number: found}.items(), key=lambda pair: -pair[1].asked)
    with suppress(OSError):
        content = msgspec.json.encode(dict(newest[:_MOST_KEPT]))
        replace(state.expected_starts, content, sync=False)
    return found


def read_start(output: str) -> float | None:
    """The moment in squeue's answer (unix s), the first of a job in several; None for `N/A`."""
    moments = [float(word) for word in output.split() if re.fullmatch(r"\d{9,11}", word)]
    return min(moments, default=None)


def count_before(output: str, job: JobRow) -> int | None:
    """How many jobs in squeue's answer (`PRIORITY NUMBER`) come before `job`; None: not told."""
    if job.priority is None or not job.number.isdecimal():
        return None
    own = (-job.priority, int(job.number))
    before = 0
    for line in output.splitlines()[:_MOST_ROWS]:
        found = re.fullmatch(r"\s*(\d{1,12}) (\d{1,12})\s*", line)
        before += found is not None and (-float(found[1]), int(found[2])) < own
    return before
