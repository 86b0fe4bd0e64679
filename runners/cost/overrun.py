"""A run that will cost far more than was expected of it: found once two epochs are done, said
once.
"""

import os
import time
from contextlib import suppress
from decimal import Decimal

import msgspec

from runners.cost.meter import money, run_cost, run_rate
from runners.host.clock import Moment
from runners.host.files import append_event
from runners.model.plan import Estimate
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory
from runners.watch.metrics.epoch_timing import read_epoch_timing

FACTOR = Decimal("1.5")


class Overrun(msgspec.Struct, frozen=True):
    """What a run will cost by its own pace, and what it was expected to: dollars as decimal text;
    `text` in words.
    """

    will: str
    expected: str
    text: str
    time: float = 0.0


def judge_overrun(
    spent: Decimal, left_s: float, rate: Decimal, expected: Estimate | None
) -> Overrun | None:
    """The overrun of a run that has `spent` dollars and goes on for `remaining_s`; None when it
    stays within 1.5 times.
    """
    if expected is None or expected.usd is None:
        return None
    will, should = spent + money(rate, left_s), Decimal(expected.usd)
    if should <= 0 or will <= FACTOR * should:
        return None
    text = (
        f"will cost ${will:.2f} by its own pace: {will / should:.1f} times its estimate of "
        f"${should:.2f} "
        f"({expected.basis})"
    )
    return Overrun(f"{will:.6f}", f"{should:.6f}", text)


def warn_of_overrun(state: StateDirectory, run: Run, now: Moment) -> Overrun | None:
    """The overrun of a live run as its events have it now; the first time it is found, it is an
    alert of the run.
    """
    rate, spent = run_rate(run), run_cost(run, now)
    directory = state.run(run.id)
    expected = run.plan.forecast if run.plan is not None else None
    if not run.is_live or rate is None or spent is None or expected is None:
        return None
    left_s = read_epoch_timing(directory.path).remaining_s(now.wall)
    found = None if left_s is None else judge_overrun(spent, left_s, rate, expected)
    if found is not None:
        with suppress(OSError):
            _say_once(directory, msgspec.structs.replace(found, time=time.time()))
    return found


def _say_once(run: RunDirectory, found: Overrun) -> None:
    """Tell whoever looks at the run; whoever makes the file first says it."""
    try:
        descriptor = os.open(
            run.overrun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(found))
    append_event(run.supervisor_events, "alert", text=found.text)
