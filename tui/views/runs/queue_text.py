"""Why a run waits, in full: its place in the queue, who holds GPUs, and when that may end."""

from collections.abc import Mapping, Sequence

from runners.model.plan import is_job
from runners.model.run_ids import by_names
from runners.model.states import State
from runners.state.leases import Lease
from tui.views.format import duration
from tui.views.runs.plan_text import gpu_numbers
from tui.views.runs.run_view import RunView


def queue_lines(
    view: RunView, runs: Sequence[RunView], leases: Mapping[str, Sequence[Lease]]
) -> list[str]:
    """Sentences about a queued run; none about another. `runs` are those that live beside it."""
    run = view.run
    if run.state is not State.QUEUED:
        return []
    queue = sorted(
        (other for other in runs if other.run.state is State.QUEUED and not is_job(other.run.plan)),
        key=lambda other: (-_priority(other), other.run.created, other.run.id),
    )
    ids = [other.run.id for other in queue]
    names = {other.run.id: other.run.name for other in runs}
    lines = [f"It is queued: {by_names(run.reason, names) or 'not considered yet'}."]
    lines += [] if is_job(run.plan) else _before_it(view, runs, ids, leases)
    if run.plan is not None and run.plan.spec.after is not None:
        after = run.plan.spec.after
        other = next((other for other in runs if other.run.id == after.run), None)
        left = "" if other is None else f"; {_may_end(other)}"
        name = by_names(after.run) if other is None else other.run.name
        lines.append(f"It starts after {name} has ended ({after.on}){left}.")
    return lines


def _before_it(
    view: RunView,
    runs: Sequence[RunView],
    ids: Sequence[str],
    leases: Mapping[str, Sequence[Lease]],
) -> list[str]:
    """Its place in this machine's queue of `ids`, and who holds GPUs."""
    run, lines = view.run, []
    place = ids.index(run.id) + 1 if run.id in ids else view.queue_place
    if place is not None:
        of = f" of {len(ids)}" if run.id in ids else ""
        lines.append(f"Place {place}{of} in the queue, priority {_priority(view)}.")
    holding = {lease.run for held in leases.values() for lease in held}
    holders = [other for other in runs if other.run.id in holding]
    if holders and run.plan is not None and run.plan.spec.after is None:
        lines.append("Who holds GPUs, and when each may end at its current pace:")
        for holder in sorted(holders, key=lambda other: other.progress.eta_s or float("inf")):
            lines.append(_holder_line(holder))
    return lines


def _holder_line(holder: RunView) -> str:
    gpus = gpu_numbers(holder.run.plan) if holder.run.plan else ""
    since = f"runs for {duration(holder.seconds)}"
    return f"  {holder.run.name}: GPU {gpus}, {since}, {_may_end(holder)}"


def _may_end(holder: RunView) -> str:
    left = holder.progress.eta_s
    return "end not known" if left is None else f"may end in {duration(left)}"


def _priority(view: RunView) -> int:
    return view.run.plan.spec.priority if view.run.plan else 0
