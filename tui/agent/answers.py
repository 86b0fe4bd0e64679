"""Questions about runs, answered once: what a front end asks, and runs that ended long ago."""

import asyncio
from bisect import bisect_left
from typing import Any

import msgspec

from runners.cost.cost_reader import costs_of
from runners.host.clock import moment_now
from runners.places.ssh.older import MOST_OLDER
from runners.places.ssh.snapshot_updates import row_to_tree
from runners.places.ssh.thinning import thin_row
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run
from tui.agent.exchange import Exchange
from tui.snapshot.questions import LaunchQuestion, Question, answer
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_view import view_run


async def send_answer(exchange: Exchange) -> None:
    """Answer the question `question` about `words`. ValueError for one that is not known."""
    asked = str(exchange.fields["question"])
    subjects = [str(word) for word in exchange.fields["subjects"]]
    if asked in {question.value for question in LaunchQuestion}:
        from tui.agent.launching import enter, launch_answer

        enter(exchange.fields.get("folder"))
        wanted = LaunchQuestion(asked)
        plan = await asyncio.to_thread(launch_answer, exchange.state, wanted, subjects)
        await exchange.answer({"found": plan})
        return
    question = Question(asked)
    found = await asyncio.to_thread(answer, exchange.state, question, subjects)
    await exchange.answer({"found": msgspec.to_builtins(found)})


async def send_older(exchange: Exchange) -> None:
    """Send the newest ended runs before `before`, or those of `ids`; and how many are left."""
    await exchange.answer(await asyncio.to_thread(_older, exchange.state, exchange.fields))


def _older(state: StateDirectory, request: dict[str, Any]) -> dict[str, Any]:
    live = set(live_run_ids(state))
    ended = [run_id for run_id in list_run_ids(state) if run_id not in live]
    if "ids" in request:
        present = set(ended)
        wanted = [str(run_id) for run_id in request["ids"] if run_id in present][:MOST_OLDER]
        left = None
    else:
        end = bisect_left(ended, str(request["before"]))
        wanted = ended[max(0, end - MOST_OLDER) : end]
        left = end - len(wanted)
    runs = [read_run(state, run_id) for run_id in reversed(wanted)]
    costs = costs_of(state, runs, moment_now())
    rows = [thin_row(row_of_view(view_run(run, costs=costs))) for run in runs]
    return {"runs": [row_to_tree(row) for row in rows], "left": left}
