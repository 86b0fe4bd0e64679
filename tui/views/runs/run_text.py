"""The last words about a run: how it ended, how good it got, what is on disk, what it cost."""

import shlex
from collections.abc import Sequence

from runners.cost.run_costs import ProjectionBasis, RunCost
from runners.host.clock import time_of_day
from runners.model.gpus import GpuUse
from runners.model.metric_rule import BestMetric
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.model.units import gpus_text
from runners.watch.metrics.judging import higher
from tui.views.format import DASH, dollars, duration, energy, memory, metric, percent, place, size
from tui.views.machines.gpu_text import xid_text
from tui.views.runs.run_view import RunView

_NAMES = {"psnr": "PSNR", "ssim": "SSIM", "loss": "loss"}
_UNITS = {"psnr": " dB"}


def command_of(plan: LaunchPlan) -> str:
    """The command of a run as a line for a shell."""
    return shlex.join(plan.argv)


def asks_text(view: RunView) -> str:
    """`waits for input: Continue? [y/N]`; empty for a run that does not."""
    return "" if view.asks is None else f"waits for input: {view.asks or 'no prompt'}"


def no_gpus(plan: LaunchPlan) -> str:
    """Why a run holds no GPU: it waits for some, or it asked for none."""
    return "not given yet" if plan.waits_for_gpus else "none (CPU)"


def describe_use(use: GpuUse) -> str:
    """What a run made of one GPU: `GPU 7: peak VRAM 62.1G of 80.0G, mean use 93%, 640 Wh`."""
    node = f"node {use.node} " if use.node else ""
    text = (
        f"{node}GPU {use.index}: peak VRAM {memory(use.peak_memory)} of {memory(use.memory_total)}"
    )
    text += f", mean use {percent(use.mean_utilization)}"
    if use.energy_wh is not None:
        text += f", {energy(use.energy_wh)}"
    known = (("simulated", use.simulated), ("shared", use.shared))
    remarks = [word for word, holds in known if holds]
    text += f" ({', '.join(remarks)})" if remarks else ""
    errors = (f"⚠ {xid_text(xid)} at {time_of_day(xid.time, form='%H:%M:%S')}" for xid in use.xids)
    return "; ".join([text, *errors])


def energy_pairs(usage: Sequence[GpuUse]) -> list[tuple[str, str]]:
    """What a run's GPUs drew together and how that is known; nothing where it is not."""
    known = [use for use in usage if use.energy_wh is not None]
    if not known:
        return []
    total = sum(use.energy_wh or 0.0 for use in known)
    counted = all(use.counted_s > 0.9 * use.energy_s for use in known)
    how = "by the GPUs' own counters" if counted else "by power readings"
    missing = f", {gpus_text(len(usage) - len(known))} unknown" if len(known) < len(usage) else ""
    return [("energy", f"{energy(total)} {how}{missing}")]


def readable_metric(name: str) -> str:
    """`held_out_psnr` as `held-out PSNR`."""
    text = name.replace("held_out", "held-out").replace("_", " ")
    return " ".join(_NAMES.get(word, word) for word in text.split())


def format_metric(name: str, value: float | int | None) -> str:
    """A metric's value with its unit where the name tells it."""
    return metric(value) + _UNITS.get(name.rsplit("_", 1)[-1], "") if value is not None else DASH


def judged_text(run: Run, judged: BestMetric) -> str:
    """`val_psnr: more is better`."""
    upwards = higher(run, judged.metric)
    if upwards is None:
        return f"{judged.metric}: whether more of it is better is not known"
    return f"{judged.metric}: {'more' if upwards else 'less'} is better"


def best_text(view: RunView, name: str) -> str:
    """The best value of a metric and where it was, unless it is the last one."""
    so_far = view.best_so_far.get(name)
    if so_far is not None and so_far[0] != view.metrics.get(name):
        axis = view.progress.counted.removesuffix("s")
        at = "" if so_far[1] is None else f" at {axis} {place(so_far[1])}"
        return f" (best so far {format_metric(name, so_far[0])}{at})"
    final = view.final.get(name)
    if final is None or final.best is None or final.best == final.last:
        return ""
    at = "" if final.best_step is None else f" at {final.axis} {place(final.best_step)}"
    return f" (best {format_metric(name, final.best)}{at})"


def progress_pairs(view: RunView) -> list[tuple[str, str]]:
    """How far a run is, and how that is known."""
    progress = view.progress
    pairs = []
    if progress.phase:
        pairs.append(("phase", progress.phase))
    if progress.epoch is not None:
        pairs.append(("epoch", f"{progress.epoch} of {progress.epochs or DASH}"))
    if progress.step is not None:
        of = f" of {progress.steps:,}" if progress.steps else ""
        pairs.append((progress.counted.removesuffix("s"), f"{progress.step:,}{of}"))
    if progress.rate is not None:
        pairs.append(("pace", f"{metric(progress.rate)} {progress.rate_unit}/s"))
    if view.readers:
        pairs.append(("metrics", f"read from its output as {', '.join(view.readers)}"))
    if view.skipped:
        pairs.append(
            ("output", f"{size(view.skipped)} of it was written too fast to be read for metrics")
        )
    if progress.eta_s is not None:
        pairs.append(("ends in", f"{duration(progress.eta_s)} at its current pace"))
    return pairs


def cost_text(view: RunView) -> str:
    """What a run cost of the sessions that it was in, and what it would cost by its own price."""
    money, would = view.money, would_text(view)
    if money.cost is None and view.run.started is None:
        return f"{DASH} (not started)"
    if money.cost is None:
        return f"{DASH} (no session: {would or 'nothing is counted'})"
    at = f" at {dollars(money.rate)}/h" if money.rate is not None else ""
    share = f"{dollars(money.cost)}{at} (by its share of the session; estimate of GPU time)"
    outside = f"; outside of sessions it {would}" if would else ""
    return share + projection_text(money) + outside


def would_text(view: RunView) -> str:
    """`would cost $0.42 at $1.99/h by preset NAME`; empty for a run without price or such time."""
    price, would = view.run.plan.price if view.run.plan else None, view.money.would
    if would is None or would.cost is None or price is None:
        return ""
    by = " ".join(filter(None, (price.basis, price.name)))
    return f"would cost {dollars(would.cost)} at {dollars(would.rate)}/h by {by}" + (
        projection_text(would)
    )


def projection_text(money: RunCost) -> str:
    """What a run will have cost at its end, and on what ground; empty when that is not known."""
    if money.projected is None:
        return ""
    if money.basis is ProjectionBasis.GUARD:
        return f"; {dollars(money.projected)} when the guard stops it"
    if money.basis is ProjectionBasis.LIMIT:
        return f"; {dollars(money.projected)} when its limit ends it"
    ground = "its estimate" if money.basis is ProjectionBasis.ESTIMATE else "its pace"
    return f"; {dollars(money.projected)} at the end, by {ground}"
