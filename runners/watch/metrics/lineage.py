"""The runs that a run was resumed from, oldest first."""

from runners.model.run import Run
from runners.state.layout import RunDirectory
from runners.state.runs import read_run

_MOST = 64


def ancestors(run: Run) -> list[Run]:
    """The runs before `run`, each resumed from the one before; a deleted one or a loop ends it."""
    found: list[Run] = []
    state = RunDirectory.at(run.directory).home
    seen, parent = {run.id}, run.plan.spec.parent if run.plan else ""
    while parent and parent not in seen and len(found) < _MOST:
        seen.add(parent)
        if not state.run(parent).path.is_dir():
            break
        before = read_run(state, parent)
        if before.plan is None:
            break
        found.append(before)
        parent = before.plan.spec.parent
    return found[::-1]
