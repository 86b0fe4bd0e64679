"""Settings and environment of one run beside the charts.
What other marked runs have otherwise is marked.
"""

import textwrap

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from runners.model.run_ids import by_names
from tui.panel.widgets.metrics.chart_request import RunCurve
from tui.snapshot.curve_store import CurveStore
from tui.views.format import DASH, dollars, duration
from tui.views.runs.plan_text import gpu_numbers, number_of_processes
from tui.views.runs.run_settings import same, settings_of
from tui.views.runs.run_text import no_gpus
from tui.views.runs.run_view import RunView

_WIDTH = 44
_FRAME = 4


class SettingsPane(VerticalScroll):
    """What a run was started with, and where; painted when it differs."""

    def compose(self) -> ComposeResult:
        yield Static(id="metrics-details-text", markup=False)

    def show(
        self, view: RunView, letter: str, marks: tuple[RunCurve, ...], store: CurveStore
    ) -> None:
        """Show `view`'s, beside those of the other marked runs."""
        reported, notes = store.settings(view.run.id), store.notes(view.run.id)
        others = [
            settings_of(mark.run, store.settings(mark.run.id))
            for mark in marks
            if mark.run.id != view.run.id
        ]
        title = f"{letter} {view.run.name or view.run.id}"
        width = min(_WIDTH, self.screen.size.width // 2) - _FRAME
        text = draw_details(title, describe(view, reported, notes), others, width)
        # None yet while the page is being made: the next snapshot, a second later, says it.
        for lines in self.query(Static):
            if text != lines.content:
                lines.update(text)


Section = tuple[str, dict[str, str]]


def describe(view: RunView, reported: dict[str, object], notes: list[str]) -> list[Section]:
    """What stands beside the curves of one run."""
    run, plan = view.run, view.run.plan
    about = {
        "state": f"{run.state}" + (f": {by_names(run.reason)}" if run.reason else ""),
        "took" if not run.is_live else "runs for": duration(view.seconds),
        "cost": dollars(view.money.cost),
    }
    if plan is not None and plan.spec.parent:
        about["resumed from"] = plan.spec.parent
    if view.checkpoint is not None:
        about["checkpoint"] = view.checkpoint.path.rpartition("/")[2]
    sections: list[Section] = [("Run", {"id": run.id, "preset": run.preset, **about})]
    if notes:
        sections.append(("Read this way", {f"{i}": note for i, note in enumerate(notes, 1)}))
    sections.append(("Settings", settings_of(run, reported)))
    if plan is not None:
        names = sorted({gpu.name for gpu in plan.gpus})
        simulated = " (simulated)" if any(gpu.simulated for gpu in plan.gpus) else ""
        origin, source = plan.origin, plan.provenance
        sections.append(
            (
                "Environment",
                {
                    "host": origin.host,
                    "GPUs": (gpu_numbers(plan) or no_gpus(plan)) + simulated,
                    **({"GPU": ", ".join(names)} if names else {}),
                    "processes": number_of_processes(plan),
                    "folder": plan.working_directory,
                    "commit": (source.commit or DASH)[:12]
                    + (f" on {source.branch}" if source.branch else ""),
                    "python": source.python or DASH,
                    "torch": source.torch or DASH,
                    "driver": source.driver or DASH,
                    **plan.environment,
                },
            )
        )
    return sections


def draw_details(
    title: str, sections: list[Section], others: list[dict[str, str]], width: int
) -> Text:
    """The sections as text; `≠` stands before a setting that another marked run has otherwise."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{title}\n", style="bold")
    for heading, pairs in sections:
        text.append(f"\n{heading}\n", style="bold underline")
        for name, value in pairs.items():
            differs = heading == "Settings" and any(
                not same(other.get(name, value), value) for other in others
            )
            text.append("≠ " if differs else "  ", style="yellow bold" if differs else "")
            if heading == "Read this way":
                text.append(_wrapped(value, width - 2) + "\n", style="italic")
                continue
            text.append(f"{name} ", style="dim")
            text.append(f"{value}\n", style="bold" if differs else "")
    return text


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, max(12, width), subsequent_indent="  ")
