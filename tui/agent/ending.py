"""How a run ends, told when it does; and ending it because another machine's part of it failed."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from runners.host.files import read_tail
from runners.lifecycle.control.stop import request_stop
from runners.model.endings import Ending, EndingCause
from runners.model.run import Run
from runners.model.states import State
from runners.state.codec import read_intent
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, read_run

_LOOK_S = 1.0
_TAIL = 64 << 10
# What torchrun prints below "Root Cause (first observed failure)".
_FIRST_FAILURE = re.compile(rb"Root Cause.*?rank\s*:\s*(\d+) \(local_rank", re.DOTALL)

Send = Callable[..., Awaitable[None]]


async def tell_ending(
    state: StateDirectory, number: int, asked: dict[str, Any], send: Send
) -> None:
    """Say how the run ended, once it has: at once when it has already. NotFound for none."""
    run_id = find_run(state, str(asked["run"])).id
    while (run := read_run(state, run_id)).is_live:
        await asyncio.sleep(_LOOK_S)
    await send({"id": number, "answer": await asyncio.to_thread(_ending, state, run)})


def _ending(state: StateDirectory, run: Run) -> dict[str, Any]:
    return {
        "state": str(run.state),
        "reason": run.reason,
        "diagnosis": run.ending.get("diagnosis") if run.ending else None,
        "ended": run.ended,
        "rank": _failed_rank(state, run) if _is_rank_wanted(run) else None,
    }


def _is_rank_wanted(run: Run) -> bool:
    """Whether a rank may have failed that the reason does not name."""
    return run.state is not State.DONE and (run.ending is None or "rank" not in run.ending)


def _failed_rank(state: StateDirectory, run: Run) -> int | None:
    found = _FIRST_FAILURE.search(read_tail(state.run(run.id).output, _TAIL))
    return int(found[1]) if found else None


async def end_run(state: StateDirectory, number: int, asked: dict[str, Any], send: Send) -> None:
    """Ask the run to stop for a reason; one that was asked already, or has ended, is let be."""
    run = find_run(state, str(asked["run"]))
    wanted = run.is_live and read_intent(state.run(run.id)) is None
    if wanted:
        ending = Ending(cause=EndingCause.PEER, detail=str(asked.get("reason", "")))
        await asyncio.to_thread(request_stop, state, run, False, ending)
    await send({"id": number, "answer": {"asked": wanted}})
