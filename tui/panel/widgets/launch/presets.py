"""A preset in the launch form's list: in which order they stand, and what each needs and costs in
a line.
"""

import time
from collections.abc import Sequence

from rich.text import Text

from runners.model.spec import GpuRequest, RunSpec
from runners.presets.catalogue import PresetEntry
from tui.panel.feed import PanelSnapshot
from tui.panel.widgets.gpu.picker import spell_ids
from tui.views.format import dollars, duration
from tui.views.run_view import RunView


def newest_first(
    entries: Sequence[PresetEntry], picture: PanelSnapshot | None
) -> list[PresetEntry]:
    """Those launched last stand first, then those never launched, by name."""
    launched = last_runs(picture)
    never = float("-inf")
    return sorted(
        entries,
        key=lambda e: (-(launched[e.name].run.created if e.name in launched else never), e.name),
    )


def last_runs(picture: PanelSnapshot | None) -> dict[str, RunView]:
    """The newest run of each preset among those the panel shows; a group's preset has that of its
    newest member.
    """
    last: dict[str, RunView] = {}
    for view in picture.runs if picture else ():
        group = view.run.plan.group.rpartition("-")[0] if view.run.plan else ""
        for name in filter(None, (view.run.preset, group)):
            if name not in last or last[name].run.created < view.run.created:
                last[name] = view
    return last


def describe_entry(entry: PresetEntry, last: RunView | None) -> Text:
    """The preset's name, and below it what it needs, what it should take, and when it ran last."""
    if entry.problem:
        return Text.assemble((f"✘ {entry.name}", "red"), ("\n  cannot be loaded", "dim"))
    needs = " + ".join(_needs(spec.gpus) for spec in entry.specs)
    words = [needs, *([_estimate(entry.specs)] if _estimate(entry.specs) else [])]
    if last is not None:
        ago = duration(max(0.0, time.time() - last.run.created))
        words.append(f"ran {ago} ago {dollars(last.money.cost)}".rstrip("— "))
    return Text.assemble(entry.name, ("\n  " + " · ".join(words), "dim"))


def _needs(request: GpuRequest) -> str:
    if not request.wants_gpus:
        return "CPU"
    if request.all:
        return "all GPUs"
    if request.ids:
        return f"GPU {request.ids[0] if len(request.ids) == 1 else spell_ids(request.ids)}"
    return f"{request.count} GPU{'s' if request.count > 1 else ''}"


def _estimate(specs: Sequence[RunSpec]) -> str:
    """`~2h00m $4`: the preset's own word; of several runs the longest, and the sum of money."""
    seconds = [spec.estimate.seconds for spec in specs if spec.estimate.seconds is not None]
    money = [f"${spec.estimate.usd}" for spec in specs if spec.estimate.usd is not None]
    return " ".join(
        [*([f"~{duration(max(seconds))}"] if seconds else []), " + ".join(money)]
    ).strip()
