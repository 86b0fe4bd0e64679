"""`launch` and `plan`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from runners.housekeeping import tend
from runners.lifecycle.control.job_stop import ending_with_job
from runners.lifecycle.control.start import NotSupervised, start_together
from runners.lifecycle.control.wait import wait_until_ended
from runners.lifecycle.launch.planner import PlannedRun, plan_runs
from runners.lifecycle.launch.sweep import judging_metric
from runners.model.errors import ExitCode
from runners.model.plan import LaunchPlan, is_job
from runners.model.run import Run
from runners.model.run_ids import by_names
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.scheduling.allocation import Denied
from runners.scheduling.queue_order import Granted, Waiting
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.requests import open_request
from runners.state.runs import read_run
from tui.cli.output import echo, print_json_of_runs, print_pairs, print_summary, run_exit_code
from tui.cli.specs import specs_from
from tui.views.runs.plan_text import describe_plan, estimate_text, rate_text, starts_of, starts_text
from tui.views.safe import safe_cell

if TYPE_CHECKING:
    from runners.lifecycle.launch.submit import Submission
    from runners.verify.verify import VerificationFailed


def run_launch(arguments: argparse.Namespace) -> int:
    """Start a run, or the runs of a group; print their ids, or follow them to their end."""
    if arguments.hosts:
        from tui.cli.host_nodes import launch_on_hosts

        return launch_on_hosts(arguments)
    state = StateDirectory().create()
    with open_request(state) as request:
        runs = request.made or _start(state, arguments, request.name)
    if isinstance(runs, int):
        return runs
    if arguments.follow:
        return _follow(state, runs, arguments.json)
    if arguments.wait:
        try:
            with ending_with_job(state, runs):
                runs = [wait_until_ended(state, run.id) for run in runs]
        except KeyboardInterrupt:
            return _interrupted(state, runs, arguments.json)
    if arguments.json:
        print_json_of_runs(_views_of(runs), not _are_group(runs))
    else:
        for run in runs:
            print(run.id, flush=True)
            if arguments.wait:
                echo(f"{run.state}{': ' + run.reason if run.reason else ''}")
    return max(run_exit_code(run) for run in runs) if arguments.wait else ExitCode.DONE


def _are_group(runs: list[Run]) -> bool:
    return runs[0].plan is not None and bool(runs[0].plan.spec.group)


def _views_of(runs: list[Run]) -> list[dict[str, Any]]:
    from tui.views.runs.run_json import to_json  # most launches print an id and no more
    from tui.views.runs.run_view import view_run

    return [to_json(view_run(run, thorough=True)) for run in runs]


def _start(state: StateDirectory, arguments: argparse.Namespace, request: str) -> list[Run] | int:
    """Start what the command line names and print its notes; an exit code for several machines."""
    tend(state)
    judged_by = judging_metric(arguments.early_stop)
    specs = specs_from(arguments)
    wanted = specs[0].nodes
    if wanted is not None and specs[0].node is None:
        from tui.cli.host_nodes import launch_on_hosts

        arguments.hosts = ",".join(wanted.hosts)
        arguments.master_port = wanted.port
        return launch_on_hosts(arguments)
    if arguments.no_verify:
        specs = [msgspec.structs.replace(spec, verify=()) for spec in specs]
    try:
        runs = start_together(state, specs, queue=not arguments.no_queue, request=request)
    except NotSupervised as error:
        # Whoever reads only the ids must not launch the same again.
        if not arguments.json:
            print(*(run.id for run in error.runs), sep="\n")
        raise
    if judged_by is not None:
        from runners.guard.sweep_watch import watch_for_hopeless

        watch_for_hopeless(state, specs[0].group, [run.id for run in runs], judged_by)
    if state.guard.is_dir():
        _tell_of_guard(state)
    # What all runs of a sweep have is printed once.
    for text in dict.fromkeys(text for run in runs for text in _about(run)):
        echo(text)
    if specs[0].parallel is not None:
        echo(starts_text(len(runs), [run.reason for run in runs if run.state is State.QUEUED]))
    return runs


def _about(run: Run) -> Iterator[str]:
    """What should be known of a run that was launched."""
    if (plan := run.plan) is not None:
        yield from (f"note: {note}" for note in plan.notes)
        if is_job(plan):
            from runners.state.jobs import read_job  # clusters only

            job = read_job(RunDirectory.at(run.directory))
            if job is not None and job.remark:
                yield f"note: Slurm: {safe_cell(job.remark)}"
        if plan.price is not None and plan.price.basis == "flag":
            # Told here alone: who gives a price may take it for one that is counted.
            yield f"price: {rate_text(plan.price, plan, plan.phase != 'queued')}"
        if plan.forecast is not None and plan.phase != "queued":
            yield f"estimate: {estimate_text(plan)}"
    if run.state is State.QUEUED and (plan is None or plan.spec.parallel is None):
        yield f"{run.id} is queued: {by_names(run.reason)}"


def _tell_of_guard(state: StateDirectory) -> None:
    """Say what is wrong with the guard, and which runs it would stop before their end."""
    from runners.guard.rule import read_guard  # most have no guard
    from tui.views.money.guard_text import too_late_text

    guard = read_guard(state)
    for problem in guard.problems:
        echo(f"⚠ {problem}")
    if guard.rule is not None and (late := too_late_text(state)):
        echo(late)


def _follow(state: StateDirectory, runs: list[Run], as_json: bool) -> int:
    from tui.cli.output_blocks import (  # most launches do not wait for their output
        OutputBlocks,
        OutputFollower,
    )

    for run in runs:
        echo(f"run {run.id}  ·  {run.directory}")
    label = len(runs) > 1
    with ExitStack() as stack:
        followers = [
            stack.enter_context(
                OutputFollower(
                    OutputBlocks(state.run(run.id).output, attempt=1),
                    prefix=f"{run.name} │ " if label else "",
                    # With --json, stdout is the document and nothing else.
                    stream=sys.stderr if as_json else sys.stdout,
                )
            )
            for run in runs
        ]

        def copy() -> None:
            for follower in followers:
                follower.copy()

        try:
            with ending_with_job(state, runs):
                ended = [wait_until_ended(state, run.id, copy) for run in runs]
        except KeyboardInterrupt:
            return _interrupted(state, runs, as_json)
        copy()
    if as_json:
        print_json_of_runs(_views_of(ended), not _are_group(ended))
    else:
        for run in ended:
            print_summary(run)
    return max(run_exit_code(run) for run in ended)


def _interrupted(state: StateDirectory, runs: list[Run], as_json: bool) -> int:
    if as_json:
        now = [read_run(state, run.id) for run in runs]
        print_json_of_runs(_views_of(now), not _are_group(runs))
    names = " ".join(run.id for run in runs)
    echo(
        f"\nthe run continues: `fresnel-tui logs -f {runs[0].id}` shows it, `fresnel-tui stop "
        f"{names}` stops it"
    )
    return ExitCode.INTERRUPTED


def run_plan(arguments: argparse.Namespace) -> int:
    """Print the plan; with the exit code of the launch when that would be refused now."""
    if arguments.show_secrets:
        from tui.cli.shown_secrets import refuse_elsewhere  # few plans are shown so

        refuse_elsewhere(arguments)
    state = StateDirectory()
    specs = specs_from(arguments)
    planned = plan_runs(state, specs)
    jobs = _jobs_of(state, planned)
    fails = None if arguments.no_verify else _failing(state, specs)
    if arguments.json:
        scripts = {run_id: job.script for job in jobs for run_id in job.runs}
        values = [_plan_json(run, scripts.get(run.plan.run), fails) for run in planned]
        print_json_of_runs(values, not planned[0].plan.spec.group)
    else:
        for i, run in enumerate(planned):
            if i:
                print()
            print_pairs(describe_plan(_shown_plan(run, arguments.show_secrets), run.decision))
        for job in jobs:
            from runners.lifecycle.launch.submit import test_only

            print(f"\n{job.script}", end="")
            echo(f"sbatch --test-only: {test_only(job)}")
    if len(planned) > 1:
        echo(starts_of([run.decision for run in planned]))
    hints = (run.decision.hint for run in planned if not isinstance(run.decision, Granted))
    for hint in dict.fromkeys(filter(None, hints)):
        echo(hint)
    if fails is not None:
        echo(f"a launch would be refused: {fails.name}: {fails.problem}\n  {fails.hint}")
    refused = (run.refusal() for run in planned)
    return next((problem.exit_code for problem in (fails, *refused) if problem), ExitCode.DONE)


def _failing(state: StateDirectory, specs: Sequence[RunSpec]) -> "VerificationFailed | None":
    """Why the checks that the launch makes would refuse it."""
    if not any(spec.verify for spec in specs):
        return None
    from runners.verify.verify import VerificationFailed, refuse_failing  # most presets ask for few

    try:
        refuse_failing(state, specs)
    except VerificationFailed as problem:
        return problem
    return None


def _jobs_of(state: StateDirectory, planned: Sequence[PlannedRun]) -> "Sequence[Submission]":
    """What would be handed to Slurm; nothing for runs of this machine."""
    if not any(is_job(run.plan) for run in planned):
        return ()
    from runners.lifecycle.launch.submit import submissions  # clusters only

    return submissions(state, ((run.plan.run, run.plan.spec) for run in planned))


def _shown_plan(run: PlannedRun, with_secrets: bool) -> LaunchPlan:
    if not with_secrets:
        return run.plan
    from tui.cli.shown_secrets import with_real_secrets

    return with_real_secrets(run.plan, run.planned.secrets, run.planned.environment)


def _plan_json(
    run: PlannedRun, script: str | None, fails: "VerificationFailed | None"
) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(run.plan)
    value["preset"], value["name"] = run.plan.spec.preset, run.plan.spec.name
    value["slurm_script"] = script
    value["denied"] = run.decision.reason if isinstance(run.decision, Denied) else None
    value["waits"] = run.decision.reason if isinstance(run.decision, Waiting) else None
    value["failing"] = None if fails is None else f"{fails.name}: {fails.problem}"
    return value
