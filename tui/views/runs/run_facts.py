"""What runs are compared by, read from a run's folder: settings, code, metrics, money."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from runners.cost.cost_reader import costs_of
from runners.cost.run_costs import RunCost
from runners.host.clock import moment_now
from runners.lifecycle.launch.git_snapshot import read_source
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.rank_processes import processes_of
from runners.watch.metrics.event_reader import EventReader
from runners.watch.metrics.final import FinalMetric, FinalReport, read_final
from runners.watch.metrics.final_maker import keep_final, make_final
from tui.views.runs.code_diff import diff_text
from tui.views.runs.run_settings import as_text, launched_settings
from tui.views.runs.run_text import no_gpus

_VISIBILITY = re.compile(
    r"(CUDA|ROCR|HIP|ZE)_\w*VISIBLE_DEVICES|CUDA_DEVICE_ORDER|FRESNEL_\w+|MASTER_PORT|.*PORT"
)
_CHANGED = re.compile(r"^\+\+\+ (?:b/)?(.*)$", re.MULTILINE)


class RunFacts(msgspec.Struct, frozen=True):
    """One run as it is compared: names and values by section, and its final or latest metrics."""

    run: Run
    settings: dict[str, str]
    stated: dict[str, str]
    code: dict[str, str]
    environment: dict[str, str]
    machine: dict[str, str]
    metrics: dict[str, FinalMetric]
    headline: str | None = None
    seconds: float | None = None
    money: RunCost = RunCost()


class ComparedRuns(msgspec.Struct, frozen=True):
    """The facts of several runs."""

    facts: tuple[RunFacts, ...]


def compared_facts(state: StateDirectory, runs: Sequence[Run]) -> ComparedRuns:
    """The facts of these runs; their output may be long."""
    costs, now = costs_of(state, runs), moment_now()
    return ComparedRuns(
        tuple(facts_of(state, run, costs.of(run), run.seconds(now)) for run in runs)
    )


def facts_of(
    state: StateDirectory, run: Run, money: RunCost, seconds: float | None = None
) -> RunFacts:
    """Read a run's facts; of a live one, or one that nobody has summed up yet, all its output."""
    plan, report = run.plan, _report(run)
    return RunFacts(
        run=run,
        settings=launched_settings(run, partial(_neutral, run)),
        stated=_stated(run),
        code=_code(plan, state.run(run.id)) if plan else {},
        environment=_environment(run, plan) if plan else {},
        machine=_machine(run, plan) if plan else {},
        metrics=report.metrics,
        headline=report.headline,
        seconds=seconds,
        money=money,
    )


def _report(run: Run) -> FinalReport:
    found = read_final(run)
    if found is not None:
        return found
    return make_final(run) if run.is_live or run.started is None else keep_final(run)


def _stated(run: Run) -> dict[str, str]:
    """What the program itself said of its settings, at its latest start."""
    reader = EventReader(Path(run.directory) / "events.jsonl")
    found: dict[str, object] = {}
    more = True
    while more:
        for event in reader.poll(4 << 20):
            if event.type == "start" and event.settings:
                found = event.settings
        # It stands at the beginning; of a long file the rest is not read for it.
        more = reader.more and not found
    return {name: _neutral(run, as_text(value)) for name, value in found.items()}


def _code(plan: LaunchPlan, directory: RunDirectory) -> dict[str, str]:
    code = {"folder": plan.working_directory}
    source = read_source(directory)
    commit = plan.provenance.commit
    if commit:
        code["commit"] = commit[:12] + (
            f" on {plan.provenance.branch}" if plan.provenance.branch else ""
        )
    if source is not None and source.dirty:
        files = changed_files(directory)
        shown = ", ".join(files[:6]) + (f" and {len(files) - 6} more" if len(files) > 6 else "")
        code["uncommitted"] = f"{shown or 'untracked files'} ({source.diff_sha256[:8]})"
    elif commit and source is not None and source.dirty is False:
        code["uncommitted"] = "nothing"
    return code


def changed_files(directory: RunDirectory) -> list[str]:
    """The files that were changed and not committed when the run was launched."""
    names = _CHANGED.findall(diff_text(directory) or "")
    return [name for name in names if name != "/dev/null"]


def _environment(run: Run, plan: LaunchPlan) -> dict[str, str]:
    source = plan.provenance
    found = {"python": source.python, "torch": source.torch, "interpreter": source.interpreter}
    known = {name: value for name, value in found.items() if value}
    variables = {
        name: _neutral(run, value)
        for name, value in plan.environment.items()
        if not _VISIBILITY.fullmatch(name)
    }
    return {**known, **variables, "fresnel-tui": source.fresnel}


def _machine(run: Run, plan: LaunchPlan) -> dict[str, str]:
    models = sorted({gpu.name for gpu in plan.gpus})
    simulated = " (simulated)" if any(gpu.simulated for gpu in plan.gpus) else ""
    gpus = f"{len(plan.gpus)} × {', '.join(models)}{simulated}" if plan.gpus else no_gpus(plan)
    found = {
        "host": plan.origin.host,
        "GPUs": gpus,
        "processes": str(processes_of(run) or ""),
        "driver": plan.provenance.driver or "",
        "system": plan.provenance.system,
    }
    return {name: value for name, value in found.items() if value}


def _neutral(run: Run, text: str) -> str:
    """`text` without what is another in every run: its folder, its id, its port."""
    plan = run.plan
    text = text.replace(run.directory, "${run_dir}").replace(run.id, "${run}")
    if plan is not None and plan.port:
        text = re.sub(rf"(?<!\d){plan.port}(?!\d)", "${port}", text)
    return text
