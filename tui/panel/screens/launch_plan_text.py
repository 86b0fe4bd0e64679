"""What the launch form says: its title and keys, the runs of its plan, what the batch comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from runners.lifecycle.launch.sweep import Sweep
from runners.model.masking import mask_text
from runners.model.scaling import describe_batch
from runners.model.states import State
from runners.places.ssh.registry import ANY
from tui.panel.widgets.launch.drafts import RunDraft
from tui.panel.widgets.launch.form import LaunchForm
from tui.panel.widgets.launch.sweep_fields import add_sweep
from tui.panel.widgets.named_lines import NamedLines
from tui.views.runs.form_plan import RUN_BY_LAUNCH, FormPlan, FormRun, LaunchChecks
from tui.views.runs.launch_choices import LaunchChoice
from tui.views.safe import safe_cell

CHECKING = "◌ checking"
NO_ANSWER = "not checked before the launch: "
REFUSED = "will not start"
REFUSED_KEYS = "F7 shows all checks; F2 there launches all the same"
OWN_CHECKS = "its own checks are made at the launch (F7: now)"
_RULE_TEXT = {
    "linear": "linear",
    "sqrt": "square root",
    "program": "batch only, the program scales the rate",
    "none": "batch only",
}
_HEADERS = ("machine", "GPUs", "mapping", "note", "estimate", "price")
"""What decides whether it can run stands first."""
_FOLDED = {"environment": "set", "removed": "removed"}
"""Of the programs' variables: how many are set and removed; which ones is read when it matters."""
_OUTCOMES = 2
"""Of so many runs it is said whether they start, where the space is short."""
_NAMES = 13
"""Cells for the names of a plan's values, and the space behind them."""


def form_title(choice: LaunchChoice | None, machine: str, several: bool) -> str:
    """What is launched, and on which machine where there are several."""
    here = "this machine" if several else ""
    where = "any machine" if machine == ANY else machine or here
    title = f"Launch a run on {where}" if where else "Launch a run"
    return f"{title} · {choice.entry.name}" if choice is not None else title


def form_keys(machine: str, several: bool) -> str:
    """The keys that no button names; presets of another machine are kept there."""
    keys = ["F4 more", *([] if machine else ["F5 save", "F6 edit"]), "F7 check"]
    return " · ".join([*keys, *(["F8 machine"] if several else []), "Esc close"])


def show_batch(form: LaunchForm) -> None:
    """Show in the form what the batch comes to, where there is one."""
    text = _batch_text(form.single, len(form.picker.gpus))
    batch = form.query_one("#batch", Static)
    batch.display = bool(text.plain)
    batch.update(text)


def _batch_text(draft: RunDraft | None, gpus: int) -> Text:
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


def outcome_text(plan: FormPlan, sweep: Sweep | None, checked: LaunchChecks | None = None) -> Text:
    """Whether it starts, on what, for how much: what is seen without scrolling.

    `checked` is what the launch's own checks will say; None as long as they are made.
    """
    text = Text("" if sweep is None else f"{sweep.size}\n")
    refused = checked is not None and bool(checked.problem)
    is_open = bool(plan.checks) and (checked is None or refused)
    if checked is not None and refused:
        add_refusal(text, checked, len(plan.runs) > 1)
    elif is_open:
        text.append(f"{CHECKING} {', '.join(plan.checks)}…\n", "dim")
    if plan.starts and not is_open:
        text.append(f"{plan.starts}\n", "bold")
    if sweep is not None:
        text.append("the first: ")
    for run in plan.runs[:_OUTCOMES]:
        text.append_text(_run_text(run, is_open))
    more = len(plan.runs) - _OUTCOMES
    if more > 0:
        text.append(f"and {more} more\n", "dim")
    notes = list(dict.fromkeys(note for run in plan.runs for note in run.notes))
    if checked is not None and checked.unknown:
        notes.insert(0, f"{NO_ANSWER}{checked.unknown}")
    if plan.checks and not is_open and not RUN_BY_LAUNCH.isdisjoint(plan.checks):
        notes.append(OWN_CHECKS)
    for note in notes[:1]:
        others = f" (and {len(notes) - 1} more below)" if len(notes) > 1 else ""
        text.append(f"⚠ {note}{others}\n", "yellow")
    text.rstrip()
    return text


def _run_text(run: FormRun, is_open: bool) -> Text:
    """What one run comes to; before its checks have passed (`is_open`) only what is free."""
    summary = run.summary or dict(run.pairs).get("GPUs", "")
    if run.denied:
        return Text(f"{State.FAILED.sign} {summary}\n", "yellow")
    if not run.starts:
        return Text(f"{State.QUEUED.sign} {summary}\n", "yellow")
    return Text(f"  {run.free}\n", "dim") if is_open else Text(f"✔ {summary}\n")


def add_refusal(text: Text, checked: LaunchChecks, is_named: bool) -> None:
    """Why the launch will be refused, what mends it, and what the form can do about it."""
    whose = f"{checked.name}: " if is_named else ""
    text.append(
        f"{State.FAILED.sign} {REFUSED}: {whose}{safe_cell(mask_text(checked.problem))}\n", "red"
    )
    advice = f"{safe_cell(checked.advice)} · " if checked.advice else ""
    text.append(f"{advice}{REFUSED_KEYS}\n", "yellow")


def environment_lines(plan: FormPlan) -> tuple[str, NamedLines]:
    """What is said of the programs' variables while they are folded, and all of them."""
    lines, counts = NamedLines(_NAMES), Counter[str]()
    for name, value in dict.fromkeys(pair for run in plan.runs for pair in run.pairs):
        if name in _FOLDED:
            lines.add(name, value)
            counts[name] += 1
    parts = [f"{counts[name]} {word}" for name, word in _FOLDED.items() if counts[name]]
    return ", ".join(parts), lines


def plan_lines(
    plan: FormPlan, sweep: Sweep | None, changes: Sequence[tuple[str, str]]
) -> NamedLines:
    """Every run of a plan, before them a sweep's summary, and what was changed in the form."""
    lines = NamedLines(_NAMES)
    for name, change in changes:
        lines.add("changed", mask_text(f"{name} {change}"), "bold")
    if sweep is not None:
        add_sweep(lines, sweep, plan.starts)
    for run in plan.runs:
        if run is not plan.runs[0]:
            lines.add_text(Text())
        _add_plan(lines, run)
    return lines


def _add_plan(lines: NamedLines, run: FormRun) -> None:
    loud = {"note"} if run.starts else {"note", "GPUs"}
    for name, value in sorted(run.pairs, key=lambda pair: pair[0] not in _HEADERS):
        if name not in _FOLDED:
            lines.add(name, value, "yellow" if name in loud else "")
