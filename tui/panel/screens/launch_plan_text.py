"""What the launch form says of its plan: the runs that it makes, and what the batch comes to."""

from __future__ import annotations

from rich.text import Text

from runners.lifecycle.launch.sweep import Sweep
from runners.model.scaling import describe_batch
from tui.panel.widgets.launch.drafts import RunDraft
from tui.panel.widgets.launch.sweep_fields import sweep_text
from tui.panel.widgets.named_lines import NamedLines
from tui.views.runs.form_plan import FormPlan, FormRun

_RULE_TEXT = {
    "linear": "linear",
    "sqrt": "square root",
    "program": "batch only, the program scales the rate",
    "none": "batch only",
}
_HEADERS = ("GPUs", "mapping", "note", "estimate", "price")
"""What decides whether it can run stands first."""
_NAMES = 13
"""Cells for the names of a plan's values, and the space behind them."""


def batch_text(draft: RunDraft | None, gpus: int) -> Text:
    """What the batch comes to, and which fields follow the number of GPUs by which rule."""
    if draft is None:
        return Text()
    description = describe_batch(draft.spec(), draft.devices(gpus))
    text = Text(description, style="bold")
    if description and draft.follows:
        follows = ", ".join(f"{name}={value}" for name, value in draft.follows.items())
        rule = _RULE_TEXT[draft.rule or "none"]
        text.append(f"\n✎ {follows} follow the GPUs: {rule} (F3 changes)", style="yellow")
    return text


def plan_lines(plan: FormPlan, sweep: Sweep | None) -> NamedLines:
    """Every run of a plan, a sweep's summary before them."""
    lines = NamedLines(_NAMES)
    if sweep is not None:
        lines.add_text(sweep_text(sweep))
    for run in plan.runs:
        if run is not plan.runs[0]:
            lines.add_text(Text())
        _add_plan(lines, run)
    return lines


def _add_plan(lines: NamedLines, run: FormRun) -> None:
    loud = {"note"} if run.starts else {"note", "GPUs"}
    for name, value in sorted(run.pairs, key=lambda pair: pair[0] not in _HEADERS):
        lines.add(name, value, "yellow" if name in loud else "")
