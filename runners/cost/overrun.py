"""A run that will cost far more than expected: found after two epochs, and reported once."""

import os
import time
from contextlib import suppress
from decimal import Decimal

import msgspec

from runners.cost.run_costs import ProjectionBasis, RunCost
from runners.host.files import append_event
from runners.model.plan import Estimate
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory

FACTOR = Decimal("1.5")


class Overrun(msgspec.Struct, frozen=True):
    """What a run will cost at its current pace and what was expected: US dollars as decimal text.

    `text` is the sentence that says so, `time` when it was written down (unix seconds).
    """

    will: str
    expected: str
    text: str
    time: float = 0.0


def judge_overrun(will: Decimal, expected: Estimate | None, is_paid: bool = True) -> Overrun | None:
    """The overrun of a run that `will` cost so many dollars; None within 1.5 times the estimate.

    One that is not paid for, since no session is open, would cost them.
    """
    if expected is None or expected.usd is None:
        return None
    should = Decimal(expected.usd)
    if should <= 0 or will <= FACTOR * should:
        return None
    will_or_would = "will" if is_paid else "would"
    text = (
        f"{will_or_would} cost ${will:,.2f} at its current pace: {will / should:.1f} times its "
        f"estimate of ${should:,.2f} ({expected.basis})"
    )
    return Overrun(f"{will:.6f}", f"{should:.6f}", text)


def find_overrun(run: Run, cost: RunCost) -> Overrun | None:
    """The overrun of a live run by its own epochs so far; None without any."""
    # Without a session it would cost that; it takes as much longer all the same.
    known = cost.would or cost if cost.projected is None else cost
    if not run.is_live or run.plan is None or known.projected is None or known.per_epoch is None:
        return None
    # A projection that rests on the estimate cannot contradict it.
    if known.basis is not ProjectionBasis.PACE:
        return None
    return judge_overrun(known.projected, run.plan.forecast, is_paid=known is cost)


def warn_of_overrun(state: StateDirectory, run: Run, cost: RunCost) -> Overrun | None:
    """The overrun of a live run; when it is first found, an alert of the run is written."""
    found = find_overrun(run, cost)
    if found is not None:
        with suppress(OSError):
            _write_once(state.run(run.id), msgspec.structs.replace(found, time=time.time()))
    return found


def _write_once(run: RunDirectory, found: Overrun) -> None:
    """Write the alert; of several panels and the guard, the one that creates the file does it."""
    try:
        descriptor = os.open(
            run.overrun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(found))
    append_event(run.supervisor_events, "alert", text=found.text)
