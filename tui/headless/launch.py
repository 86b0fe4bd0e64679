"""`launch` and `plan`."""

import argparse
import shlex
from typing import Any

import msgspec

from runners.cost.meter import hourly_rate
from runners.lifecycle.control import adopt_orphans, preview, start, wait_until_ended
from runners.model.errors import ExitCode, WrongInput
from runners.model.paths import StateDirectory
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.model.spec import After, GpuRequest, RunSpec
from runners.model.states import State
from runners.placement.queueing import Verdict
from runners.presets.catalogue import resolve_preset
from runners.presets.load import command_spec
from runners.presets.units import parse_gpu_ids, parse_gpu_request
from tui.format import dollars, duration, indices
from tui.headless.logs import OutputFollower
from tui.headless.output import print_json, print_pairs, say
from tui.headless.summary import print_summary, run_exit_code
from tui.overview import look_at, to_json


def spec_from(arguments: argparse.Namespace) -> RunSpec:
    """The RunSpec that the command line describes."""
    if (arguments.preset is None) == (arguments.command_words is None):
        both = arguments.preset is not None
        raise WrongInput(
            "give a preset or a command behind --, not both" if both else "what shall be launched?",
            "fresnel-tui launch PRESET, or fresnel-tui launch -- COMMAND ARGS…",
        )
    if arguments.command_words is not None:
        spec = command_spec(arguments.command_words, arguments.overrides, arguments.name)
    else:
        spec = resolve_preset(arguments.preset, arguments.overrides, arguments.name)
    request = _gpu_request(arguments)
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


def run_launch(arguments: argparse.Namespace) -> int:
    """Start a run; print its id, or follow it to its end."""
    state = StateDirectory().create()
    adopt_orphans(state)
    run = start(state, spec_from(arguments), queue=not arguments.no_queue)
    if run.state is State.QUEUED:
        say(run.reason)
    for note in run.plan.notes if run.plan else ():
        say(f"note: {note}")
    if arguments.follow:
        return _follow(state, run, arguments.json)
    if arguments.wait:
        try:
            run = wait_until_ended(state, run.id)
        except KeyboardInterrupt:
            return _interrupted(run)
    if arguments.json:
        print_json(to_json(look_at(run)))
    else:
        print(run.id, flush=True)
        if arguments.wait:
            say(f"{run.state}{': ' + run.reason if run.reason else ''}")
    return run_exit_code(run) if arguments.wait else ExitCode.DONE


def _follow(state: StateDirectory, run: Run, as_json: bool) -> int:
    say(f"run {run.id}  ·  {run.directory}")
    with OutputFollower(state.run(run.id).output) as follower:
        try:
            run = wait_until_ended(state, run.id, follower.copy)
        except KeyboardInterrupt:
            return _interrupted(run)
        follower.copy()
    if as_json:
        print_json(to_json(look_at(run)))
    else:
        print_summary(run)
    return run_exit_code(run)


def _interrupted(run: Run) -> int:
    say(f"\nthe run goes on: `fresnel-tui logs -f {run.id}` shows it, `fresnel-tui stop {run.id}` stops it")
    return ExitCode.INTERRUPTED


def run_plan(arguments: argparse.Namespace) -> int:
    """Print the plan; exit 4 when it would be denied now."""
    plan, verdict = preview(StateDirectory(), spec_from(arguments))
    if arguments.json:
        value: dict[str, Any] = msgspec.to_builtins(plan)
        value["denied"] = verdict.reason if verdict.never else None
        value["waits"] = verdict.reason if verdict.reason and not verdict.never else None
        print_json(value)
    else:
        print_pairs(describe_plan(plan, verdict))
    if verdict.reason and verdict.hint:
        say(verdict.hint)
    return ExitCode.DENIED if verdict.never else ExitCode.DONE


def describe_plan(plan: LaunchPlan, verdict: Verdict) -> list[tuple[str, str]]:
    """The plan as names and values for people; with the refusal or the wait in place of the GPUs."""
    pairs = [("run", plan.run), ("command", shlex.join(plan.argv)), ("directory", plan.working_directory)]
    pairs += [("environment", f"{name}={value}") for name, value in plan.environment.items()]
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
        pairs.append(("price", f"{dollars(rate)}/h by {plan.price.basis}{where} (estimate)"))
    if plan.estimate.seconds is not None or plan.estimate.usd is not None:
        cost = f", ${plan.estimate.usd}" if plan.estimate.usd else ""
        pairs.append(("estimate", f"{duration(plan.estimate.seconds)}{cost} (the preset's word)"))
    return pairs + [("note", note) for note in plan.notes]
