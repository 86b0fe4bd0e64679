"""Where every rank of a run is, in the place of its log: taken now, or as saved when it hung."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from runners.diagnosis.stacks import ALL_RANKS, StackDump, newest_stacks, take_stacks
from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.panel.widgets.log.area import LogArea


async def show_stacks(
    area: LogArea, state: StateDirectory, run: Run, tell: Callable[[str], None]
) -> None:
    """Show the stacks of `run` instead of its output; again: its output."""
    name, directory = run.name or run.id, state.run(run.id)
    shown = area.log_pane.reader.document.path
    if shown is not None and shown.name == ALL_RANKS and directory.path in shown.parents:
        area.show(directory.output, f"{name} · output.log")
        return
    try:
        dump = await asyncio.to_thread(_look, state, run)
    except OSError as problem:
        tell(f"no stacks can be saved: {problem.strerror or problem}")
        return
    if dump is None:
        tell("it has ended, and no stacks were saved of it" if not run.is_live else "nothing runs")
        return
    at = time.strftime("%H:%M:%S", time.localtime(dump.time))
    area.show(Path(dump.folder) / ALL_RANKS, f"{name} · stacks of {at} · T: the output again")
    area.log_pane.action_go_start()
    if dump.verdict:
        tell(dump.verdict)


def _look(state: StateDirectory, run: Run) -> StackDump | None:
    directory = state.run(run.id)
    if not run.is_live:
        return newest_stacks(directory.path)
    dump = take_stacks(directory, "asked for in the panel")
    return dump if dump.ranks else None
