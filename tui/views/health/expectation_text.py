"""What a preset expects of a run beside what was measured; what falls short is a line, no alarm."""

from runners.model.spec import Expectation
from tui.views.format import duration, memory, metric
from tui.views.runs.run_view import RunView

_SLOWER_BY = 1.25
_SETTLED_S = 300.0  # compiling and the first epoch say nothing of the rest


def expected_now(view: RunView) -> Expectation | None:
    """The expectation that holds now: that of the stage it is in, else that of the run."""
    plan = view.run.plan
    if plan is None or plan.expect == Expectation():
        return None
    phase = (view.progress.phase or "").lower()
    for name, stage in plan.expect.stages.items():
        if phase and name.lower() in phase:
            return stage
    return plan.expect


def shortfalls(view: RunView) -> list[str]:
    """A line for each measured value that is not what was expected; empty while it settles."""
    expected = expected_now(view)
    if expected is None or (view.seconds or 0.0) < _SETTLED_S:
        return []
    lines = []
    for use in view.usage:
        lines += _use_lines(expected, use.index, use.mean_utilization, use.peak_memory)
    gpus = len(view.run.plan.gpus) if view.run.plan is not None else 0
    rate, unit = view.progress.rate, view.progress.rate_unit
    wanted = expected.samples_per_second_per_gpu
    counted = rate is not None and gpus > 0 and unit in ("samples", "images")
    if wanted is not None and counted and rate is not None and rate / gpus < wanted:
        lines.append(f"{metric(rate / gpus)} {unit}/s on each GPU, expected {metric(wanted)}")
    pace, epoch_s = view.epoch_s, expected.epoch_s
    if epoch_s is not None and pace is not None and pace > _SLOWER_BY * epoch_s:
        lines.append(f"{duration(pace)} an epoch, expected {duration(epoch_s)}")
    return lines


def _use_lines(
    expected: Expectation, index: int, utilization: float | None, peak: int | None
) -> list[str]:
    lines = []
    if expected.utilization is not None and utilization is not None:
        low, high = expected.utilization
        words = f"{low:.0f} %" if high is None else f"{low:.0f}–{high:.0f} %"
        if utilization < low:
            lines.append(f"GPU {index}: mean use {utilization:.0f} %, expected {words}")
    if expected.memory is not None and peak is not None and peak > expected.memory:
        lines.append(f"GPU {index}: peak VRAM {memory(peak)}, expected {memory(expected.memory)}")
    return lines
