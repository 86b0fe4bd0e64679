"""`launch` and `plan`."""

import argparse
from contextlib import ExitStack
from typing import Any

import msgspec

from runners.gpus.client import read_gpus
from runners.guard.rule import read_guard
from runners.housekeeping import tend
from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.start import preview, start_together
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode, WrongInput
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.model.spec import After, GpuRequest, RunSpec
from runners.model.states import State
from runners.presets.catalogue import resolve_runs
from runners.presets.load import command_spec
from runners.presets.parameters import parse_value, with_value
from runners.presets.reading.units import parse_gpu_ids, parse_gpu_request
from runners.presets.scaling import devices_of, rescaled, with_values
from runners.scheduling.policy import QueueDecision
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.logs import OutputFollower
from tui.cli.output import print_json, print_pairs, print_summary, say
from tui.views.plan_text import describe_plan, estimate_text
from tui.views.run_text import run_exit_code
from tui.views.run_view import to_json, view_run


def specs_from(arguments: argparse.Namespace) -> list[RunSpec]:
    """The RunSpecs that the command line describes: one, or those of a group."""
    ways = [
        way
        for way in (arguments.preset, arguments.command_words, arguments.again)
        if way is not None
    ]
    if len(ways) != 1:
        raise WrongInput(
            "give a preset, a command behind --, or --again RUN, not both"
            if ways
            else "what shall be launched?",
            "fresnel-tui launch PRESET, or fresnel-tui launch -- COMMAND ARGS…",
        )
    if arguments.again is not None:
        state = StateDirectory()
        spec = relaunch_spec(state, find_run(state, arguments.again))
        specs = [_varied(spec, arguments.overrides, arguments.name)]
    elif arguments.command_words is not None:
        specs = [command_spec(arguments.command_words, arguments.overrides, arguments.name)]
    else:
        specs = resolve_runs(arguments.preset, arguments.overrides, arguments.name)
    if len(specs) > 1 and (arguments.gpus is not None or arguments.gpu_ids is not None):
        raise WrongInput(
            f"`{arguments.preset}` starts {len(specs)} runs with GPUs of their own",
            f"change one of them: --set {specs[0].name}.gpus=0-3",
        )
    return [_apply_flags(spec, arguments) for spec in specs]


def _varied(spec: RunSpec, overrides: list[str], name: str) -> RunSpec:
    """`spec` of an old run with parameters changed by `NAME=VALUE`, under another name if one is
    given.
    """
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        parameter = next(
            (one for one in spec.parameters if one.name == key.removeprefix("parameters.")), None
        )
        if parameter is None or not equals:
            raise WrongInput(
                f"--set {override}: --again changes parameters as NAME=VALUE",
                f"those of this run: {', '.join(one.name for one in spec.parameters) or 'none'}",
            )
        try:
            changes[parameter.name] = with_value(parameter, parse_value(parameter, text)).value
        except ValueError as error:
            raise WrongInput(f"--set {override}: {error}") from None
    return msgspec.structs.replace(with_values(spec, changes), name=name or spec.name)


def _apply_flags(spec: RunSpec, arguments: argparse.Namespace) -> RunSpec:
    request = _gpu_request(arguments)
    if arguments.scale is not None:
        spec = _rescale(spec, request or spec.gpus, arguments.scale)
    if request is not None:
        spec = msgspec.structs.replace(spec, gpus=request)
    if arguments.priority is not None:
        spec = msgspec.structs.replace(spec, priority=arguments.priority)
    if arguments.after is not None:
        name, _, on = arguments.after.partition(":")
        if on not in ("", "success", "failure", "any"):
            raise WrongInput(
                f"--after {arguments.after}: expected RUN, RUN:success, RUN:failure or RUN:any"
            )
        spec = msgspec.structs.replace(spec, after=After(name, on or "success"))
    if arguments.price is not None:
        spec = msgspec.structs.replace(spec, price=arguments.price, price_basis="flag")
    return spec


def _gpu_request(arguments: argparse.Namespace) -> GpuRequest | None:
    try:
        if arguments.gpu_ids is not None:
            return GpuRequest(ids=parse_gpu_ids(arguments.gpu_ids), explicit=True)
        if arguments.gpus is not None:
            if not (arguments.gpus.isdigit() or arguments.gpus == "all"):
                raise ValueError(
                    f"expected a number or all, got {arguments.gpus!r}; --gpu-ids names GPUs"
                )
            return msgspec.structs.replace(parse_gpu_request(arguments.gpus), explicit=True)
    except ValueError as error:
        raise WrongInput(f"{'--gpu-ids' if arguments.gpu_ids else '--gpus'}: {error}") from None
    return None


def _rescale(spec: RunSpec, request: GpuRequest, rule: str) -> RunSpec:
    """The same samples on each device as the preset has, and the learning rate by `rule`; every
    change is said.
    """
    if spec.scaling is None:
        raise WrongInput(
            f"--scale: `{spec.preset}` does not say what its batch is",
            "give the preset the key `scaling`",
        )
    present = len(read_gpus(StateDirectory()).gpus) if spec.gpus.all or request.all else 0
    before, devices = (devices_of(spec, one, present) for one in (spec.gpus, request))
    changes = rescaled(spec, before, devices, "none" if rule == "batch" else rule)  # type: ignore[arg-type]
    for name, value in changes.items():
        say(f"--scale {rule}: {name}={value:g}")
    if rule != "batch":
        spec = msgspec.structs.replace(
            spec, scaling=msgspec.structs.replace(spec.scaling, rule=rule)
        )
    return with_values(spec, changes)


def run_launch(arguments: argparse.Namespace) -> int:
    """Start a run, or the runs of a group; print their ids, or follow them to their end."""
    state = StateDirectory().create()
    tend(state)
    runs = start_together(state, specs_from(arguments), queue=not arguments.no_queue)
    for problem in read_guard(state).problems:
        say(f"⚠ {problem}")
    for run in runs:
        for note in run.plan.notes if run.plan else ():
            say(f"note: {note}")
        if run.plan is not None and run.plan.forecast is not None and not run.plan.queued:
            say(f"estimate: {estimate_text(run.plan.forecast)}")
        if run.state is State.QUEUED:
            say(f"{run.id} {run.reason}")
    if arguments.follow:
        return _follow(state, runs, arguments.json)
    if arguments.wait:
        try:
            runs = [wait_until_ended(state, run.id) for run in runs]
        except KeyboardInterrupt:
            return _interrupted(runs)
    if arguments.json:
        views = [to_json(view_run(run, thorough=True)) for run in runs]
        print_json(views if runs[0].plan and runs[0].plan.group else views[0])
    else:
        for run in runs:
            print(run.id, flush=True)
            if arguments.wait:
                say(f"{run.state}{': ' + run.reason if run.reason else ''}")
    return max(run_exit_code(run) for run in runs) if arguments.wait else ExitCode.DONE


def _follow(state: StateDirectory, runs: list[Run], as_json: bool) -> int:
    for run in runs:
        say(f"run {run.id}  ·  {run.directory}")
    label = len(runs) > 1
    with ExitStack() as stack:
        followers = [
            stack.enter_context(
                OutputFollower(state.run(run.id).output, prefix=f"{run.name} │ " if label else "")
            )
            for run in runs
        ]

        def copy() -> None:
            for follower in followers:
                follower.copy()

        try:
            ended = [wait_until_ended(state, run.id, copy) for run in runs]
        except KeyboardInterrupt:
            return _interrupted(runs)
        copy()
    if as_json:
        views = [to_json(view_run(run, thorough=True)) for run in ended]
        print_json(views if label else views[0])
    else:
        for run in ended:
            print_summary(run)
    return max(run_exit_code(run) for run in ended)


def _interrupted(runs: list[Run]) -> int:
    names = " ".join(run.id for run in runs)
    say(
        f"\nit goes on: `fresnel-tui logs -f {runs[0].id}` shows it, `fresnel-tui stop "
        f"{names}` stops it"
    )
    return ExitCode.INTERRUPTED


def run_plan(arguments: argparse.Namespace) -> int:
    """Print the plan; exit 4 when it would be denied now."""
    planned = preview(StateDirectory(), specs_from(arguments))
    if arguments.json:
        values = [_plan_json(plan, verdict) for plan, verdict in planned]
        print_json(values if planned[0][0].group else values[0])
    else:
        for i, (plan, verdict) in enumerate(planned):
            if i:
                print()
            print_pairs(describe_plan(plan, verdict))
    for _, verdict in planned:
        if verdict.hint:
            say(verdict.hint)
    return ExitCode.DENIED if any(verdict.never for _, verdict in planned) else ExitCode.DONE


def _plan_json(plan: LaunchPlan, verdict: QueueDecision) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(plan)
    value["denied"] = verdict.reason if verdict.never else None
    value["waits"] = verdict.reason if verdict.reason and not verdict.never else None
    return value
