"""What a run goes on from, and what remains of it, in words."""

import time

from runners.host.clock import age
from runners.model.run import Checkpoint, Run
from tui.views.format import dollars, duration, size


def resumed_text(parent: Run, checkpoint: Checkpoint, now: float | None = None) -> str:
    """`epoch 12 of 100; 88 epochs left, about 2h10m, $4.30; checkpoint PATH (7.6 MB, 3m old)`."""
    from tui.views.runs.run_view import view_run  # only where something is resumed

    now = time.time() if now is None else now
    view = view_run(parent, thorough=True)
    progress = view.progress
    parts = []
    if progress.epoch is not None:
        parts.append(f"epoch {progress.epoch:g} of {progress.epochs or '—'}")
    if progress.epoch and progress.epochs and view.seconds:
        left = progress.epochs - progress.epoch
        seconds = left * view.seconds / progress.epoch
        cost = ""
        paid = view.money.rate is not None
        money = view.money if paid else view.money.would
        if money is not None and money.rate is not None:
            amount = dollars(money.rate * int(seconds) / 3600)
            cost = f", {amount}" if paid else f", would cost {amount}"
        parts.append(f"{left:g} epochs left, about {duration(seconds)}{cost}")
    old = duration(age(checkpoint.modified, now))
    parts.append(f"checkpoint {checkpoint.path} ({size(checkpoint.bytes)}, {old} old)")
    return "; ".join(parts)
