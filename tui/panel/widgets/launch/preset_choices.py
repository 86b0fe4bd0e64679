"""How the launch form lists a choice: its name, what it needs and costs, why it cannot run."""

import time
from collections.abc import Sequence

from rich.text import Text

from runners.host.clock import age
from runners.model.spec import GpuRequest, RunSpec
from tui.panel.widgets.gpu.picker import spell_ids
from tui.views.format import dollars, duration
from tui.views.runs.launch_choices import LaunchChoice
from tui.views.runs.run_view import RunView


def describe_choice(choice: LaunchChoice, last: RunView | None) -> Text:
    """The name, and below it what it needs, should take, and when it ran last.
    Or why it cannot run here.
    """
    entry = choice.entry
    if entry.problem:
        return Text.assemble((f"✘ {entry.name}", "red"), ("\n  cannot be loaded", "dim"))
    if choice.obstacle:
        return Text.assemble((f"⊘ {entry.name}", "dim"), (f"\n  {choice.obstacle}", "dim"))
    if choice.is_new:
        return Text.assemble((entry.name, "bold"), ("\n  type any command line", "dim"))
    needs = " + ".join(_needs(spec.gpus) for spec in entry.specs)
    facts = [needs, *([_estimate(entry.specs)] if _estimate(entry.specs) else [])]
    if last is not None:
        ago = duration(age(last.run.created, time.time()))
        facts.append(f"ran {ago} ago {dollars(last.money.cost)}".rstrip("— "))
    return Text.assemble(entry.name, ("\n  " + " · ".join(facts), "dim"))


def about_choice(choice: LaunchChoice, is_kept: bool) -> Text:
    """What it is; why it cannot run; whether its fields stand as they were left."""
    if choice.entry.problem:
        return Text(choice.entry.problem, style="red")
    about = Text(choice.entry.description, style="bold")
    if choice.obstacle:
        about.append(f"\ncannot run here: {choice.obstacle}", style="yellow")
    if is_kept:
        about.append("\nas you left it: F9 begins anew", style="yellow")
    return about


def _needs(request: GpuRequest) -> str:
    if not request.wants_gpus:
        return "CPU"
    if request.all:
        return "all GPUs"
    if request.ids:
        return f"GPU {request.ids[0] if len(request.ids) == 1 else spell_ids(request.ids)}"
    return f"{request.number} GPU{'s' if request.number > 1 else ''}"


def _estimate(specs: Sequence[RunSpec]) -> str:
    """`~2h00m $4`: the preset's own word; of several runs the longest, and the sum of money."""
    seconds = [spec.estimate.seconds for spec in specs if spec.estimate.seconds is not None]
    money = [f"${spec.estimate.usd}" for spec in specs if spec.estimate.usd is not None]
    return " ".join(
        [*([f"~{duration(max(seconds))}"] if seconds else []), " + ".join(money)]
    ).strip()
