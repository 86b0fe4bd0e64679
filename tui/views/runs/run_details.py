"""Everything that is known of one run, in sections: what `status` and the panel's details show."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.cost.rates import price_age
from runners.host.clock import local_time
from runners.model.endings import Ending, EndingCause
from runners.model.plan import LaunchPlan, SourceRecord, is_job
from runners.model.run import Run
from runners.model.run_ids import by_names
from runners.model.states import State
from runners.state.decoding import read
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import Lease
from runners.state.rank_processes import processes_of
from runners.state.runs import job_of
from runners.watch.metrics.checkpoints import checkpoint_files
from runners.watch.metrics.judging import best_metric, validation_metric
from tui.views.format import DASH, duration, size
from tui.views.health.diagnosis_text import diagnosis_pairs
from tui.views.health.health_text import health_pairs
from tui.views.log_lines import error_text
from tui.views.runs.code_diff import DiffLine, diff_lines
from tui.views.runs.plan_text import gpu_numbers, limit_text, price_text, rule_pairs
from tui.views.runs.queue_text import queue_lines
from tui.views.runs.run_text import (
    asks_text,
    best_text,
    command_of,
    cost_text,
    describe_use,
    energy_pairs,
    format_metric,
    judged_text,
    no_gpus,
    progress_pairs,
    readable_metric,
)
from tui.views.runs.run_view import RunView

Pairs = list[tuple[str, str]]
_MOST_FILES = 40
_MOST_ALERTS = 20


class RunDetails(msgspec.Struct, frozen=True):
    """Everything about one run as text: sections of names and values, and its uncommitted diff."""

    title: str
    state: State
    sections: list[tuple[str, Pairs]]
    command: str
    changes: list[DiffLine]


def read_details(
    view: RunView,
    state: StateDirectory,
    live: Sequence[RunView],
    leases: Mapping[str, Sequence[Lease]],
) -> RunDetails:
    """All of it, read from the run's folder; `live` runs and `leases` as for `describe_details`."""
    run = view.run
    return RunDetails(
        title=f"{run.state.sign} {run.name or run.id}",
        state=run.state,
        sections=describe_details(view, state, live, leases),
        command=command_of(run.plan) if run.plan else "",
        changes=diff_lines(state.run(run.id)),
    )


def describe_details(
    view: RunView,
    state: StateDirectory,
    live: Sequence[RunView] = (),
    leases: Mapping[str, Sequence[Lease]] | None = None,
    files: bool = True,
) -> list[tuple[str, Pairs]]:
    """A run as sections of names and values, read from its folder and log.

    `live` runs and `leases` say what a queued one waits for.
    """
    plan = view.run.plan
    sections = [("", _ending(view, live, leases or {})), ("Times", _times(view.run, view))]
    if plan is not None and plan.spec.place.slurm is not None:
        from tui.views.runs.job_text import job_pairs  # clusters only

        sections.append(("Slurm", job_pairs(view.run, state)))
    if plan is not None:
        sections.append(("Command", _command(view.run, plan)))
    sections += [
        ("Progress", progress_pairs(view) + _metrics(view)),
        ("GPUs and cost", _machine(view)),
        ("Checkpoints and pictures", _checkpoints(view)),
    ]
    if plan is not None:
        sections.append(("Code", code_pairs(plan, state)))
        sections.append(("Environment", _environment(plan)))
    folder = Path(view.run.directory)
    sections.append(("Files", [("folder", str(folder)), *(_files(folder) if files else [])]))
    return [(title, pairs) for title, pairs in sections if pairs]


def describe_run(view: RunView) -> Pairs:
    """A run in short, as names and values: what is said when it has ended."""
    run, plan = view.run, view.run.plan
    pairs = _state(view, (), "")
    if plan is not None:
        pairs.append(("GPUs", _gpus(plan)))
        pairs += [("note", note) for note in plan.notes]
    pairs += [("GPU use", describe_use(use)) for use in view.usage]
    pairs += energy_pairs(view.usage) + _metrics(view) + progress_pairs(view)
    pairs.append(("checkpoint", _newest(view)))
    pairs += [("picture", path) for path in view.images]
    pairs += [("wall time", duration(view.seconds)), ("cost", cost_text(view))]
    return [*pairs, ("folder", run.directory)]


def _ending(view: RunView, live: Sequence[RunView], leases: Mapping[str, Sequence[Lease]]) -> Pairs:
    line = view.diagnosis.line if view.diagnosis is not None else ""
    error = error_text(view.run.directory, line)
    return _state(view, queue_lines(view, live, leases), error)


def _state(view: RunView, waits: Sequence[str], error: str) -> Pairs:
    """Where it stands and why; `waits` says what it waits for, `error` where it failed."""
    run = view.run
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    pairs = [("run", run.id), ("state", f"{run.state.sign} {run.state}{code}")]
    pairs += label_pairs(run)
    line = view.diagnosis.line if view.diagnosis is not None else ""
    if run.reason and not waits and not _is_shown_beside(run.ending, line):
        pairs.append(("reason", by_names(run.reason)))
    if view.problem:
        pairs.append(("problem", view.problem))
    pairs += [("queue", line) for line in waits]
    pairs += health_pairs(view.health)
    if error:
        pairs.append(("error", error))
    pairs += diagnosis_pairs(view.diagnosis, run.reason)
    if view.diagnosis is not None:
        from tui.views.health.stack_text import stack_pairs  # only where a run ended badly

        pairs += stack_pairs(Path(run.directory), time.time())
    if view.asks is not None:
        pairs.append(("asks", f"{asks_text(view)}; `fresnel-tui attach {run.id}` answers"))
    for alert in view.alerts[-_MOST_ALERTS:]:
        pairs.append(("alert", f"⚠ {clock(alert.time)}  {alert.text}"))
    stop = run.record.stop if run.record else None
    if stop is not None:
        left = duration(max(0.0, stop.until - time.time()))
        step = f"{stop.rung}, step {stop.step} of {stop.steps}, the next in {left}"
        pairs.append(("stopping", f"{step}; asked by {stop.asked_by or DASH}"))
    return pairs


def _is_shown_beside(ending: Ending | None, line: str) -> bool:
    """Whether state and error say the reason: a mere exit code, or the program's own `line`."""
    if ending is None or ending["cause"] is not EndingCause.FAILED or ending.get("summary"):
        return False
    own = ending.get("error", "")
    return own.startswith(line) if line and own else not own and "rank" not in ending


def label_pairs(run: Run) -> Pairs:
    """What people wrote on it."""
    labels = run.labels
    launched = run.plan.spec.name if run.plan else ""
    was = f" (launched as {launched})" if labels.name and launched != labels.name else ""
    pairs = [("name", ("★ " if labels.starred else "") + (run.name or DASH) + was)]
    if labels.tags:
        pairs.append(("tags", ", ".join(labels.tags)))
    if (judged := best_metric(run)) is not None:
        pairs.append(("judged by", judged_text(run, judged)))
    return pairs + [("your note", line) for line in labels.note.splitlines()]


def _times(run: Run, view: RunView) -> Pairs:
    pairs = [("created", clock(run.created)), ("started", clock(run.started))]
    if not run.is_live:
        pairs.append(("ended", clock(run.ended)))
    pairs.append(("ran" if not run.is_live else "runs for", duration(view.seconds)))
    if run.record is not None and run.record.attempt > 1:
        pairs.append(("attempt", str(run.record.attempt)))
    if run.plan is not None:
        origin = run.plan.origin
        number = job_of(run)
        job = f", Slurm job {number}" if number else ""
        pairs.append(("by", f"{origin.user} on {origin.host}{job}"))
        if run.plan.limit_s is not None:
            pairs.append(("limit", _limit_text(run, run.plan)))
        if run.is_live and (run.plan.limit_s is not None or is_job(run.plan)):
            pairs += _deadline_pairs(run)
    return pairs


def _limit_text(run: Run, plan: LaunchPlan) -> str:
    seconds, usd = plan.limit_s, plan.limit_usd
    if run.is_live:
        from runners.state.limits import limit_now  # few runs have one

        # That of cost follows a price that is corrected, and a session that another one follows.
        seconds, usd = limit_now(RunDirectory.at(run.directory), run.begin)
    return limit_text(seconds or 0.0, usd)


def _deadline_pairs(run: Run) -> Pairs:
    from runners.state.deadline import deadline_of  # few runs have one

    found = deadline_of(run, time.time())
    if found is None:
        return []
    again = "" if found.is_final else ", then begun anew"
    return [("ended in", f"{duration(max(found.in_s, 0.0))}, by {found.limit}{again}")]


def _command(run: Run, plan: LaunchPlan) -> Pairs:
    pairs = [("command", command_of(plan)), ("directory", plan.working_directory)]
    pairs.append(("preset", plan.spec.preset))
    if plan.spec.group:
        pairs.append(("group", plan.spec.group))
    if (processes := processes_of(run) or 0) > 1:
        pairs.append(("processes", str(processes)))
    if plan.spec.priority:
        pairs.append(("priority", str(plan.spec.priority)))
    if plan.spec.after is not None:
        pairs.append(("after", f"{plan.spec.after.run} ({plan.spec.after.on})"))
    if plan.spec.parent:
        pairs.append(("resumes", f"{plan.spec.parent}, from {plan.spec.resumed_from or DASH}"))
    pairs += [("config", change) for change in plan.config_changes]
    return pairs + rule_pairs(plan) + [("note", note) for note in plan.notes]


def _metrics(view: RunView) -> Pairs:
    beside = (validation_metric(view.run, view.metrics), view.headline)
    # What the program sums itself up by comes beside these two, else all that there is.
    shown = {*view.summary, *beside} if view.summary else view.metrics.keys()
    pairs = [
        (readable_metric(name), format_metric(name, value) + best_text(view, name))
        for name, value in view.metrics.items()
        if name in shown
    ]
    return pairs + [("expected", line) for line in view.shortfalls]


def _gpus(plan: LaunchPlan) -> str:
    simulated = " (simulated)" if any(gpu.simulated for gpu in plan.gpus) else ""
    names = ", ".join(sorted({gpu.name for gpu in plan.gpus}))
    return f"{gpu_numbers(plan) or no_gpus(plan)} {names}".strip() + simulated


def _machine(view: RunView) -> Pairs:
    plan = view.run.plan
    pairs: Pairs = []
    if plan is not None:
        pairs.append(("GPUs", _gpus(plan)))
        if plan.gpus:
            mapping = (f"GPU {gpu.index} → device {gpu.logical}" for gpu in plan.gpus_here)
            pairs.append(("as", ", ".join(mapping)))
    pairs += [("GPU use", describe_use(use)) for use in view.usage]
    pairs += energy_pairs(view.usage)
    pairs.append(("cost", cost_text(view)))
    if plan is not None and plan.price is not None and plan.price.name:
        # How old it is matters where it is what the run would cost; a session says it of its own.
        old = price_age(plan.price) if view.money.would is not None else ""
        age = f", {old}" if old else ""
        pairs.append(("price", price_text(plan.price) + age))
    return pairs


def _newest(view: RunView) -> str:
    found = view.checkpoint
    if found is None:
        return "none seen on disk"
    return f"{found.path} ({size(found.bytes)}, {clock(found.modified)})"


def _checkpoints(view: RunView) -> Pairs:
    found = view.checkpoint
    pairs: Pairs = [("newest", _newest(view))]
    if found is not None:
        files = [file for file in checkpoint_files(view.run) if file.modified < found.modified]
        for file in files[:_MOST_FILES]:
            pairs.append(("before", f"{file.path} ({size(file.bytes)}, {clock(file.modified)})"))
    if view.run.plan is not None:
        pairs += [("looked for", pattern) for pattern in view.run.plan.checkpoints]
    return pairs + [("picture", path) for path in view.images]


def code_pairs(plan: LaunchPlan, state: StateDirectory) -> Pairs:
    """What ran: commit and changes, interpreter, versions."""
    known, directory = plan.provenance, state.run(plan.run)
    pairs: Pairs = []
    if known.commit:
        branch = f" on {known.branch}" if known.branch else ""
        pairs.append(("commit", known.commit + branch))
        if known.commit_at_launch and known.commit_at_launch != known.commit:
            pairs.append(("at launch", known.commit_at_launch))
    source = read(directory.source, SourceRecord)
    if source is not None:
        changes = "uncommitted changes" if source.dirty else "no uncommitted changes"
        dirty = "git did not answer in time" if source.dirty is None else changes
        text = source.problem or dirty
        if source.diff_bytes:
            text += f" ({size(source.diff_bytes)}): {directory.source_diff}"
        if source.untracked:
            text += f", {source.untracked} untracked files"
        pairs.append(("changes", text))
    for name, value in (
        ("python", known.python),
        ("torch", known.torch),
        ("driver", known.driver),
        ("interpreter", known.interpreter),
        ("system", known.system),
        ("fresnel-tui", known.fresnel),
    ):
        if value:
            pairs.append((name, value))
    return pairs


def _environment(plan: LaunchPlan) -> Pairs:
    return [*sorted(plan.environment.items())] + [
        (name, "removed") for name in plan.environment_removed
    ]


def _files(folder: Path) -> Pairs:
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):  # gone meanwhile, or a link that leads nowhere
                stat = path.stat()
                what = "folder" if path.is_dir() else size(stat.st_size)
                found.append((path.name, what, stat.st_mtime))
    found.sort()
    return [(name, f"{what}, {clock(modified)}") for name, what, modified in found[:_MOST_FILES]]


def clock(moment: float | None) -> str:
    """A moment as the local date and time."""
    return DASH if moment is None else local_time(moment, "%Y-%m-%d %H:%M:%S") or DASH
