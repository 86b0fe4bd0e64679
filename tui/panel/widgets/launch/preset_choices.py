"""What can be launched, as the form lists it.
In which order, what each needs and costs in a line, and why some cannot run here.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from runners.lifecycle.launch.fitness import why_not_here
from runners.model.spec import GpuRequest, RunSpec
from runners.presets.catalogue import PresetEntry, list_presets
from runners.presets.load import command_spec
from tui.panel.widgets.gpu.picker import spell_ids
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import dollars, duration
from tui.views.runs.run_view import RunView

OWN_COMMAND = "own command"


class LaunchChoice(NamedTuple):
    """Something to launch; `obstacle` says why it cannot run here."""

    entry: PresetEntry
    obstacle: str = ""
    is_new: bool = False
    """A command that is typed in the form."""

    @property
    def can_run(self) -> bool:
        """False when it cannot be loaded or cannot run."""
        return not self.obstacle and not self.entry.problem


def own_command() -> LaunchChoice:
    """The choice to type a command."""
    example = "any command line, as in a shell: python train.py --epochs 10"
    spec = command_spec(["true"])
    return LaunchChoice(PresetEntry(OWN_COMMAND, "", (spec,), example), "", True)


def read_choices(snapshot: PanelSnapshot | None) -> list[LaunchChoice]:
    """Every preset: newest launched first, unfit ones next, broken ones last.
    Unfit ones cannot run here, broken ones cannot be loaded. Reads files: not for the thread that
    paints.
    """
    reading = snapshot.reading if snapshot else None
    choices = []
    for entry in newest_first(list_presets(), snapshot):
        reasons = [] if entry.problem else [why_not_here(spec, reading) for spec in entry.specs]
        choices.append(LaunchChoice(entry, next(filter(None, reasons), "")))
    return sorted(choices, key=lambda choice: (bool(choice.entry.problem), bool(choice.obstacle)))


def newest_first(
    entries: Sequence[PresetEntry], snapshot: PanelSnapshot | None
) -> list[PresetEntry]:
    """Those launched last stand first, then those never launched, by name."""
    launched = last_runs(snapshot)
    never = float("-inf")
    return sorted(
        entries,
        key=lambda e: (-(launched[e.name].run.created if e.name in launched else never), e.name),
    )


def last_runs(snapshot: PanelSnapshot | None) -> dict[str, RunView]:
    """The newest run of each preset among those the panel shows.
    A group's preset has that of its newest member.
    """
    last: dict[str, RunView] = {}
    for view in snapshot.runs if snapshot else ():
        group = view.run.plan.spec.group.rpartition("-")[0] if view.run.plan else ""
        for name in filter(None, (view.run.preset, group)):
            if name not in last or last[name].run.created < view.run.created:
                last[name] = view
    return last


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
        ago = duration(max(0.0, time.time() - last.run.created))
        facts.append(f"ran {ago} ago {dollars(last.money.cost)}".rstrip("— "))
    return Text.assemble(entry.name, ("\n  " + " · ".join(facts), "dim"))


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
