"""One run with everything there is to say about it: status, progress, metrics, checkpoint, cost."""

import time
from pathlib import Path

import msgspec

from runners.cost.cost_reader import costs_of
from runners.cost.run_costs import Costs, ProjectionBasis, RunCost, stopped_in
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.gpus.usage import read_usage
from runners.health.expected import final_shortfalls, shortfalls
from runners.health.store import health_of
from runners.host.clock import Moment, moment_now
from runners.host.files import read_json, size_of
from runners.host.identity import host_name
from runners.model.gpus import GpuUse
from runners.model.health import Health
from runners.model.plan import is_job
from runners.model.run import Checkpoint, Progress, Run
from runners.model.states import State
from runners.state.boundary import note_unreadable
from runners.state.codec import read_waits
from runners.state.layout import TERMINAL_STATUS, RunDirectory
from runners.watch.metrics.alerts import Alert
from runners.watch.metrics.final import FinalMetric, FinalReport, read_final
from runners.watch.metrics.judging import ordered
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.progress import at_end
from tui.views.metrics.pinned_charts import pinned_charts

_NOT_YET = 0.99
_READ_AT_ONCE = 32 << 20
"""Of more output the helper of its supervisor makes the report: it takes half a minute."""


class RunView(msgspec.Struct, frozen=True):
    """What both front ends show of a run at one moment; money in dollars, None without a price."""

    run: Run
    progress: Progress
    metrics: dict[str, float | int | None]
    summary: dict[str, float | int | None]
    trend: tuple[float, ...]
    checkpoint: Checkpoint | None
    images: tuple[str, ...]
    seconds: float | None
    money: RunCost = RunCost()
    usage: tuple[GpuUse, ...] = ()
    headline: str | None = None
    readers: tuple[str, ...] = ()
    skipped: int = 0
    alerts: tuple[Alert, ...] = ()
    final: dict[str, FinalMetric] = {}
    is_final: bool = False
    """Whether `final` is of all that it wrote, and not what is known until that is read."""
    best_so_far: dict[str, tuple[float, float | None]] = {}
    """Of a live run all of whose output was read: each metric's best value, and its step."""
    epoch_s: float | None = None
    """Seconds that an epoch after the first takes; None while unknown."""
    asks: str | None = None
    """The prompt at which its terminal waits for somebody to type; None when it does not."""
    queue_place: int | None = None
    """From 1; None of a run that does not wait."""
    diagnosis: Diagnosis | NotKnown | None = None
    """Why it ended, by a thorough look at a run that failed, was stopped or lost; else None."""
    health: Health | None = None
    """How it is doing while it runs; None where nobody has judged it."""
    problem: str = ""
    """What of it cannot be read, with the file; empty when all can."""

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """A sentence for each measured value that is not as its preset expects."""
        plan = self.run.plan
        found = shortfalls(plan, self.progress, self.epoch_s, self.usage, self.seconds)
        is_done = self.run.state is State.DONE
        return found + final_shortfalls(plan, self.metrics) if is_done else found


def view_run(
    run: Run,
    report: LiveReport | None = None,
    now: float | None = None,
    thorough: bool = False,
    brief: bool = False,
    costs: Costs | None = None,
) -> RunView:
    """The overview of `run`; a kept `report`, and `costs` of many runs, make it cheap to repeat.

    Output is read of live runs that write no events; `thorough` reads that of ended ones too,
    `brief` reads none.
    """
    now = time.time() if now is None else now
    try:
        report = report or LiveReport(run)
        view = _view(run, report, now, thorough, brief, costs)
    except Exception as error:  # whatever its files raise: the other runs are still shown
        rest = run.unreadable(note_unreadable(run.directory, run.directory, error))
        return RunView(rest, Progress(), {}, {}, (), None, (), None, problem=rest.problem)
    if len(view.metrics) > 1:
        names = ordered(view.metrics, [run], pinned_charts(RunDirectory.at(run.directory).home))
        view = msgspec.structs.replace(view, metrics={name: view.metrics[name] for name in names})
    problems = "; ".join(filter(None, (run.problem, view.problem, *report.problems)))
    return msgspec.structs.replace(view, problem=problems) if problems else view


def _at(run: Run, now: float) -> Moment | float:
    # A run that was started by the boot's own time is counted by it: a changed clock makes no
    # money.
    return moment_now() if run.begin is not None and run.begin.boot_ns is not None else now


def _view(
    run: Run,
    report: LiveReport,
    now: float,
    thorough: bool,
    brief: bool,
    costs: Costs | None,
) -> RunView:
    at = _at(run, now)
    read = report.boundary.read
    # Of an ended run the kept report tells more than a look at its output's end.
    report.poll(run, brief=brief or not run.is_live, thorough=thorough and run.is_live)
    final = _final(run, thorough)
    if final is None and not (run.is_live or brief) and run.started is not None:
        from runners.watch.metrics.so_far import report_so_far  # just after its end

        final = report_so_far(run, report)
    progress = _progress(run, report, final, now)
    view = RunView(
        run=run,
        progress=progress,
        metrics=dict(report.metrics),
        summary=dict(report.events.summary),
        trend=tuple(report.course.trend),
        checkpoint=read(
            "checkpoints",
            lambda: report.checkpoint.newest(run, report.printed, final),
            None,
            again=True,
        ),
        images=tuple(report.events.images),
        seconds=run.seconds(at),
        money=read("its cost", lambda: _money(run, progress, costs), RunCost(), again=True),
        usage=read_usage(Path(run.directory)) if run.plan and run.plan.gpus else (),
        headline=report.course.headline,
        readers=report.readers,
        skipped=report.skipped,
        best_so_far=report.best(run) if run.is_live else {},
        alerts=report.alerts.alerts,
        epoch_s=report.events.epoch_clock.timing.of_stage.seconds_per_epoch,
        asks=_prompt(run),
        diagnosis=read("its ending", lambda: _diagnosis(run, thorough), None, again=True),
        queue_place=_queue_place(run),
        health=read(
            "its health", lambda: health_of(run, now, None if brief else report), None, again=True
        ),
    )
    if report.checkpoint.cut:
        view = msgspec.structs.replace(view, problem=f"checkpoints: {report.checkpoint.cut}")
    return view if final is None else _as_kept(view, final)


def _money(run: Run, progress: Progress, costs: Costs | None) -> RunCost:
    home = RunDirectory.at(run.directory).home
    costs = costs or costs_of(home, [run])
    known = costs.of(run, progress.eta_s, progress.epoch)
    if (known.would or known).projected is None:
        return known
    return _with_limit(run, _with_guard(run, known))


def _with_guard(run: Run, known: RunCost) -> RunCost:
    """What it will have cost when the guard stops it, where that is before its own end."""
    home = RunDirectory.at(run.directory).home
    if not (home.guard / "guard.json").exists():
        return known
    from runners.guard.rule import stops_in  # where one is set

    left = stops_in(home, moment_now())
    is_here = run.record is not None and run.record.host in ("", host_name())
    return known if left is None or not is_here else stopped_in(known, left, ProjectionBasis.GUARD)


def _with_limit(run: Run, known: RunCost) -> RunCost:
    """What it will have cost when a limit of its own, or of its Slurm job, ends it for good."""
    if run.plan is None or (run.plan.limit_s is None and not is_job(run.plan)):
        return known
    from runners.state.deadline import deadline_of  # few runs have one

    found = deadline_of(run, time.time())
    if found is None or not found.is_final:
        return known
    return stopped_in(known, max(0.0, found.in_s), ProjectionBasis.LIMIT)


def _diagnosis(run: Run, thorough: bool) -> Diagnosis | NotKnown | None:
    if run.is_live or not thorough:
        return None
    from tui.views.health.diagnosis_text import diagnose_run  # for a page about one run

    return diagnose_run(run)


def _final(run: Run, thorough: bool) -> FinalReport | None:
    """What was kept of an ended run; a thorough look makes it where nothing was."""
    if run.is_live:
        return None
    final = read_final(run)
    output = size_of(Path(run.directory) / "output.log")
    if final is None and thorough and run.started is not None and output < _READ_AT_ONCE:
        from runners.watch.metrics.final_maker import keep_final  # all readers: not for `list`

        final = keep_final(run)
    return final


def _progress(run: Run, report: LiveReport, final: FinalReport | None, now: float) -> Progress:
    if final is not None and final.metrics:
        return at_end(final.progress, run.state)  # kept by an earlier release, perhaps
    progress = report.course.progress(now, *run.totals)
    if not run.is_live:
        return at_end(progress, run.state)
    if run.pause is not None:
        progress = msgspec.structs.replace(progress, eta_s=None)
    if progress.fraction is not None:
        # Its last step may be done, but it is not.
        progress = msgspec.structs.replace(progress, fraction=min(progress.fraction, _NOT_YET))
    return progress


def _as_kept(view: RunView, final: FinalReport) -> RunView:
    """The view with the values that were kept when the run ended."""
    return msgspec.structs.replace(
        view,
        metrics=dict(final.last),
        trend=final.trend,
        headline=final.headline,
        readers=final.readers,
        skipped=0,
        final=final.metrics,
        is_final=final.is_whole,
    )


def _queue_place(run: Run) -> int | None:
    if run.state is not State.QUEUED:
        return None
    waits = read_waits(RunDirectory.at(run.directory))
    return waits.place if waits else None


def goes_on(run: Run) -> bool:
    """Whether a run began where another, or an attempt before, had come."""
    again = run.record is not None and run.record.attempt > 1
    return again or (run.plan is not None and bool(run.plan.spec.resumed_from))


def _prompt(run: Run) -> str | None:
    """What a run with a terminal of its own asks there, as its keeper has noted it."""
    if not run.is_live or run.plan is None or not run.plan.spec.terminal:
        return None
    noted = read_json(Path(run.directory) / TERMINAL_STATUS)
    if noted is None or noted.get("waiting") is not True:
        return None
    from runners.watch.logs.render import plain  # only where somebody is asked

    return plain(str(noted.get("prompt", "")).encode()).strip()
