"""What a run goes on from, and what will remain of it then, in words."""

import time
from pathlib import Path

from runners.host.clock import age
from runners.model.course import counted_total
from runners.model.run import Checkpoint, Run
from runners.model.spec import RunSpec
from runners.watch.metrics.checkpoint_place import checkpoint_place
from tui.views.format import dollars, duration, size
from tui.views.runs.run_view import RunView, goes_on, view_run


def resumed_text(
    parent: Run, checkpoint: Checkpoint, spec: RunSpec, now: float | None = None
) -> str:
    """`epoch 12 of 100; 88 epochs left, about 2h10m, $4.30; checkpoint PATH (7.6 MB, 3m old)`.

    The place is the checkpoint's, the total that of `spec`, which is what will run. What is not
    known of them is left out.
    """
    now = time.time() if now is None else now
    place = checkpoint_place(Path(parent.directory), Path(checkpoint.path))
    view = view_run(parent, thorough=True)
    progress = view.progress
    unit, done, reached, before = "epoch", place.epoch, progress.epoch, progress.epochs
    if done is None:
        unit, done, reached, before = "step", place.step, progress.step, progress.steps
    parts = []
    if done is not None:
        total = _new_total(parent, spec, unit, before)
        parts.append(f"{unit} {done:,} of {'—' if total is None else f'{total:,}'}")
        if total is not None and total > done:
            parts.append(_remainder(view, unit, total - done, reached))
    old = duration(age(checkpoint.modified, now))
    parts.append(f"checkpoint {checkpoint.path} ({size(checkpoint.bytes)}, {old} old)")
    return "; ".join(parts)


def _new_total(parent: Run, spec: RunSpec, unit: str, before: int | None) -> int | None:
    """The total of what will run: as its preset says, or as the parent's was if nothing changed."""
    stated = spec.total_of(unit)
    if parent.plan is None or before is None:
        return stated
    old = parent.plan.spec
    if spec.stage_lengths:
        return stated  # as the program counts
    if stated is not None:
        return counted_total(stated, before, old.total_of(unit))
    ours = spec.resume.parameter if spec.resume is not None else ""
    changed = [
        part.name
        for part in old.parameters
        if part.name != ours and spec.count_in(part.name) != old.count_in(part.name)
    ]
    if not changed:
        return before
    # The one that had the old total has the new one; any other may change it as well.
    totals = {spec.count_in(name) for name in changed if old.count_in(name) == before}
    return totals.pop() if len(totals) == 1 else None


def _remainder(view: RunView, unit: str, left: int, reached: int | None) -> str:
    """How much is left, and by the parent's mean pace how long and for how much money."""
    text = f"{left:,} {unit}{'s' if left > 1 else ''} left"
    each = view.epoch_s if unit == "epoch" else None
    # The time of a parent that went on itself is not that of all that it counts.
    if each is None and reached and view.seconds and not goes_on(view.run):
        each = view.seconds / reached
    if each is None:
        return text
    text += f", about {duration(left * each)}"
    paid = view.money.rate is not None
    money = view.money if paid else view.money.would
    if money is None or money.rate is None:
        return text
    amount = dollars(money.rate * int(left * each) / 3600)
    return f"{text}, {amount}" if paid else f"{text}, would cost {amount}"
