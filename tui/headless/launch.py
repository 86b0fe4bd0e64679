"""`launch` and `plan`."""

import argparse
import shlex
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import msgspec

from runners.cost.age import price_age
from runners.cost.meter import hourly_rate
from runners.lifecycle.control import adopt_orphans, preview, spec_again, start_together, wait_until_ended
from runners.lifecycle.store import find_run
from runners.model.errors import ExitCode, WrongInput
from runners.model.paths import StateDirectory
from runners.model.plan import Forecast, LaunchPlan
from runners.model.run import Run
from runners.model.spec import After, GpuRequest, RunSpec
from runners.model.states import State
from runners.placement.queueing import Verdict
from runners.placement.reading import read_gpus
from runners.placement.visibility import ALL_VARIABLES
from runners.presets.catalogue import resolve_runs
from runners.presets.load import command_spec
from runners.presets.parameters import parse_value, with_value
from runners.presets.scaling import devices_of, rescaled, with_values
from runners.presets.units import parse_gpu_ids, parse_gpu_request
from tui.format import dollars, duration, indices
from tui.headless.logs import OutputFollower
from tui.headless.output import print_json, print_pairs, say
from tui.headless.summary import print_summary, run_exit_code
from tui.overview import look_at, to_json


def specs_from(arguments: argparse.Namespace) -> list[RunSpec]:
    """The RunSpecs that the command line describes: one, or those of a group."""
    ways = [way for way in (arguments.preset, arguments.command_words, arguments.again) if way is not None]
    if len(ways) != 1:
        raise WrongInput(
            "give a preset, a command behind --, or --again RUN, not both" if ways else "what shall be launched?",
            "fresnel-tui launch PRESET, or fresnel-tui launch -- COMMAND ARGS…",
        )
    if arguments.again is not None:
        state = StateDirectory()
        spec = spec_again(state, find_run(state, arguments.again))
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
    """`spec` of an old run with parameters changed by `NAME=VALUE`, under another name if one is given."""
    changes = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        parameter = next((one for one in spec.parameters if one.name == key.removeprefix("parameters.")), None)
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
            raise WrongInput(f"--after {arguments.after}: expected RUN, RUN:success, RUN:failure or RUN:any")
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
                raise ValueError(f"expected a number or all, got {arguments.gpus!r}; --gpu-ids names GPUs")
            return msgspec.structs.replace(parse_gpu_request(arguments.gpus), explicit=True)
    except ValueError as error:
        raise WrongInput(f"{'--gpu-ids' if arguments.gpu_ids else '--gpus'}: {error}") from None
    return None


def _rescale(spec: RunSpec, request: GpuRequest, rule: str) -> RunSpec:
    """The same samples on each device as the preset has, and the learning rate by `rule`; every change is said."""
    if spec.scaling is None:
        raise WrongInput(
            f"--scale: `{spec.preset}` does not say what its batch is", "give the preset the key `scaling`"
        )
    present = len(read_gpus(StateDirectory()).gpus) if spec.gpus.all or request.all else 0
    before, devices = (devices_of(spec, one, present) for one in (spec.gpus, request))
    changes = rescaled(spec, before, devices, "none" if rule == "batch" else rule)  # type: ignore[arg-type]
    for name, value in changes.items():
        say(f"--scale {rule}: {name}={value:g}")
    if rule != "batch":
        spec = msgspec.structs.replace(spec, scaling=msgspec.structs.replace(spec.scaling, rule=rule))
    return with_values(spec, changes)


def run_launch(arguments: argparse.Namespace) -> int:
    """Start a run, or the runs of a group; print their ids, or follow them to their end."""
    state = StateDirectory().create()
    adopt_orphans(state)
    runs = start_together(state, specs_from(arguments), queue=not arguments.no_queue)
    for run in runs:
        for note in run.plan.notes if run.plan else ():
            say(f"note: {note}")
        if run.plan is not None and run.plan.forecast is not None and not run.plan.queued:
            say(f"estimate: {estimate_words(run.plan.forecast)}")
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
        views = [to_json(look_at(run, thorough=True)) for run in runs]
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
            stack.enter_context(OutputFollower(state.run(run.id).output, prefix=f"{run.name} │ " if label else ""))
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
        views = [to_json(look_at(run, thorough=True)) for run in ended]
        print_json(views if label else views[0])
    else:
        for run in ended:
            print_summary(run)
    return max(run_exit_code(run) for run in ended)


def _interrupted(runs: list[Run]) -> int:
    names = " ".join(run.id for run in runs)
    say(f"\nit goes on: `fresnel-tui logs -f {runs[0].id}` shows it, `fresnel-tui stop {names}` stops it")
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


def _plan_json(plan: LaunchPlan, verdict: Verdict) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(plan)
    value["denied"] = verdict.reason if verdict.never else None
    value["waits"] = verdict.reason if verdict.reason and not verdict.never else None
    return value


def describe_plan(plan: LaunchPlan, verdict: Verdict) -> list[tuple[str, str]]:
    """The plan as names and values for people; with the refusal or the wait in place of the GPUs."""
    pairs = [("run", plan.run), ("command", shlex.join(plan.argv)), ("directory", plan.working_directory)]
    waits = verdict.allocation is None
    shown = {name: value for name, value in plan.environment.items() if not (waits and name in ALL_VARIABLES)}
    pairs += [("environment", f"{name}={value}") for name, value in shown.items()]
    pairs += [("removed", name) for name in plan.environment_removed]
    if verdict.allocation is None:
        pairs.append(("GPUs", f"denied: {verdict.reason}" if verdict.never else f"queued: {verdict.reason}"))
    elif plan.gpus:
        simulated = " (simulated)" if plan.gpus[0].simulated else ""
        mapping = ", ".join(f"GPU {gpu.index} → device {gpu.logical}" for gpu in plan.gpus)
        pairs.append(("GPUs", f"{indices([gpu.index for gpu in plan.gpus])} {plan.gpus[0].name}{simulated}"))
        pairs.append(("mapping", mapping))
    else:
        pairs.append(("GPUs", "none: runs on the CPU"))
    if plan.port is not None:
        pairs.append(("port", str(plan.port)))
    ladder = " → ".join(f"{rung.how} {duration(rung.wait_s)}" for rung in plan.stop.ladder)
    pairs += [("stop", f"{ladder} (to the {plan.stop.target})"), ("run folder", plan.directory)]
    pairs += [("checkpoints", pattern) for pattern in plan.checkpoints]
    if plan.price is not None:
        rate = hourly_rate(plan.price, len(plan.gpus))
        where = f", {plan.price.name}: {plan.price.source}, {plan.price.date}" if plan.price.name else ""
        where += f", {old}" if (old := price_age(plan.price)) else ""
        pairs.append(("price", f"{dollars(rate)}/h by {plan.price.basis}{where} (estimate)"))
    if plan.forecast is not None:
        pairs.append(("estimate", estimate_words(plan.forecast)))
    return pairs + [("note", note) for note in plan.notes]


def estimate_words(expected: Forecast) -> str:
    """What a run should take and cost, and who says so."""
    cost = f", {dollars(Decimal(expected.usd))}" if expected.usd else ""
    doubt = f"; {expected.doubt}" if expected.doubt else ""
    return f"{duration(expected.seconds)}{cost} ({expected.basis}{doubt})"
