"""A run whose turn never came: whose end kept it from starting, and what starts it after all."""

import shlex
from pathlib import Path

import msgspec

from runners.model.endings import EndingCause
from runners.model.run import Run
from runners.model.spec import After
from runners.state.layout import StateDirectory
from runners.state.runs import read_run

_LONGEST_CHAIN = 100
"""A plan that was edited by hand may wait for itself."""


class Awaited(msgspec.Struct, frozen=True):
    """How the run ended that was waited for, and what to do."""

    rests: str
    remedy: str


def find_awaited(run: Run) -> Awaited | None:
    """What to say of the run that `run` waited for in vain; None where it did not.

    Of a chain of such it is the first.
    """
    state = StateDirectory(Path(run.directory).parents[1])
    after = _in_vain(state, run)
    if after is None:
        return None
    again = f"fresnel-tui launch --again {run.id}"
    alone = f"`{again}` starts it without waiting."
    if not state.run(after.run).path.is_dir():
        return Awaited("the run it waited for is gone", alone)
    direct = first = read_run(state, after.run)
    for _ in range(_LONGEST_CHAIN):
        before = _in_vain(state, first)
        if before is None or not state.run(before.run).path.is_dir():
            break
        first = read_run(state, before.run)
    rests = f"{first.id} is {first.state}" + (f": {first.reason}" if first.reason else "")
    if after.on != "success":
        return Awaited(rests, alone)
    return Awaited(
        rests,
        f"`fresnel-tui diagnose {first.id}` says more. Launch that again once it is mended, and "
        f"behind it what waited for it: `{again} --after {shlex.quote(direct.name)}`; without "
        "--after it starts at once.",
    )


def _in_vain(state: StateDirectory, run: Run) -> After | None:
    after = run.plan.spec.after if run.plan is not None else None
    if after is None or run.ending is None or run.ending["cause"] is not EndingCause.REFUSED:
        return None
    # Only the few that were refused need the queue.
    from runners.lifecycle.launch.dispatch import ending_of
    from runners.scheduling.queue_order import judge_after

    ended = ending_of(state, after.run)
    return None if ended is None or judge_after(after, {after.run: ended}) is None else after
