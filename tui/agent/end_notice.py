"""How a run ends, sent when it does; and ending it because another machine's part of it failed."""

import asyncio
import re
import time
from contextlib import suppress
from typing import Any

from runners.host.files import read_tail
from runners.lifecycle.control.stop import request_stop
from runners.model.endings import Ending, EndingCause
from runners.model.run import Run
from runners.model.states import State
from runners.state.codec import read_intent
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.agent.exchange import Exchange

_POLL_S = 1.0
_TAIL = 64 << 10
# What torchrun prints below "Root Cause (first observed failure)".
_FIRST_FAILURE = re.compile(rb"Root Cause.*?rank\s*:\s*(\d+) \(local_rank", re.DOTALL)


async def send_ending(exchange: Exchange) -> None:
    """Send how the run ended, once it has: at once when it has already. NotFound for none."""
    run_id = exchange.find_run().id
    while (run := read_run(exchange.state, run_id)).is_live:
        await asyncio.sleep(_POLL_S)
    await exchange.answer(await asyncio.to_thread(_ending, exchange.state, run))


def _ending(state: StateDirectory, run: Run) -> dict[str, Any]:
    return {
        "state": str(run.state),
        "reason": run.reason,
        "diagnosis": run.ending.get("diagnosis") if run.ending else None,
        "ended": run.ended,
        "rank": _failed_rank(state, run),
    }


def _failed_rank(state: StateDirectory, run: Run) -> int | None:
    """The rank that failed first, as torchrun prints it; None where the ending names one."""
    if run.state is State.DONE or (run.ending is not None and "rank" in run.ending):
        return None
    found = _FIRST_FAILURE.search(read_tail(state.run(run.id).output, _TAIL))
    return int(found[1]) if found else None


async def send_quiet(exchange: Exchange) -> None:
    """Send for how long the run has written neither output nor events, by the disk's times."""
    run = exchange.state.run(exchange.find_run().id)
    written = [0.0]
    for path in (run.output, run.events):
        with suppress(OSError):
            written.append(path.stat().st_mtime)
    await exchange.answer({"quiet_s": max(0.0, time.time() - max(written))})


async def end_run(exchange: Exchange) -> None:
    """Ask the run to stop for a reason, unless it was asked before or has ended."""
    run = exchange.find_run()
    wanted = run.is_live and read_intent(exchange.state.run(run.id)) is None
    if wanted:
        ending = Ending(cause=EndingCause.PEER, detail=str(exchange.fields.get("reason", "")))
        await asyncio.to_thread(request_stop, exchange.state, run, False, ending)
    await exchange.answer({"asked": wanted})
