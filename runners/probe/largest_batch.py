"""Find the largest batch that fits by short real runs, and keep what was found."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from runners.host.locks import is_held
from runners.lifecycle.control.trash import delete, empty_trash, list_deleted
from runners.lifecycle.launch.planner import plan_runs
from runners.lifecycle.launch.probe_results import (
    ProbeResult,
    ProbeStep,
    keep_probe,
    names_of,
    settings_of,
)
from runners.model.errors import WrongInput
from runners.model.parameters import with_values
from runners.model.plan import LaunchPlan
from runners.model.python_command import computing_processes
from runners.model.run import Run
from runners.model.scaling import batch_of
from runners.model.spec import Parameter, RunSpec
from runners.probe.trial import TrialFailed, TrialLength, trial_spec, try_batch
from runners.state.layout import StateDirectory
from runners.state.runs import read_run

_LAST_OUTPUT_S = 15.0
"""So long a supervisor may take to sum an ended run up; then the run stays in the list."""
FINENESS = 16
"""The search ends when what fits and what does not are within this part of each other."""


class ProbeRequest(NamedTuple):
    """What to probe: the parameter, where to begin, the most to try, how long each trial lasts.

    Values are multiples of `unit`; `keep_runs` leaves the trials in the list of runs.
    """

    parameter: str
    first: int
    unit: int
    most: int | None = None
    length: TrialLength = TrialLength()
    keep_runs: bool = False


class ProbeWatcher(NamedTuple):
    """Who is told: of every trial's start, and of its result."""

    started: Callable[[Run], None] = lambda run: None
    tried: Callable[[ProbeStep], None] = lambda step: None


def request_for(
    state: StateDirectory,
    spec: RunSpec,
    parameter: str = "",
    first: int | None = None,
    most: int | None = None,
    length: TrialLength | None = None,
) -> ProbeRequest:
    """A checked request for `spec`; its batch is `parameter`, else the one `scaling` names.

    Raises WrongInput when no batch is named, or when trials would overwrite what is there.
    """
    named = _batch_parameter(spec, parameter)
    (run,) = plan_runs(state, [trial_spec(spec, named.name, _first(named, first))])
    problem = run.refusal(queue=False)
    if problem is not None:
        raise problem
    plan = run.plan
    _refuse_outside(plan)
    is_global = spec.scaling is not None and spec.scaling.per == "global"
    unit = computing_processes(plan) if is_global else 1
    begin = max(unit, _first(named, first) // unit * unit)
    bounds = [int(bound) for bound in (most, named.maximum) if bound is not None]
    smallest = min(bounds, default=None)
    if smallest is not None and begin > smallest:
        raise WrongInput(f"{named.name}: nothing to try between {begin} and {smallest}")
    return ProbeRequest(named.name, begin, unit, smallest, length or TrialLength())


def probe(
    state: StateDirectory,
    spec: RunSpec,
    request: ProbeRequest,
    watcher: ProbeWatcher | None = None,
) -> ProbeResult:
    """Try batches until the largest that fits is known, keep it, and return it with all trials.

    Raises TrialFailed when a trial fails for another reason than memory, DeniedError when the
    GPUs are taken meanwhile, WrongInput when not even the smallest batch fits. Whatever happens,
    no run is left, and what was found before is not touched.
    """
    watcher = watcher or ProbeWatcher()
    steps: list[ProbeStep] = []
    runs: list[Run] = []
    removed = runs

    def started(run: Run) -> None:
        runs.append(run)
        watcher.started(run)

    try:
        while (batch := next_batch(steps, request.first, request.unit, request.most)) is not None:
            steps.append(try_batch(state, spec, request.parameter, batch, request.length, started))
            watcher.tried(steps[-1])
    except TrialFailed:
        removed = runs[:-1]  # the last one shows why
        raise
    finally:
        _remove(state, [] if request.keep_runs else removed)
    best = largest(steps)
    if best is None:
        smallest = min(step.batch for step in steps)
        raise WrongInput(
            f"not even {request.parameter}={smallest} fits",
            "smaller data, mixed precision or a smaller model",
        )
    plan = runs[0].plan
    result = ProbeResult(
        spec.preset,
        names_of(plan.gpus if plan is not None else ()),
        computing_processes(plan) if plan is not None else 1,
        request.parameter,
        best.batch,
        time.time(),
        best.memory,
        best.samples_per_s,
        settings_of(spec, request.parameter),
        tuple(sorted(steps, key=lambda step: step.batch)),
    )
    keep_probe(state, result)
    return result


def rate_for(spec: RunSpec, result: ProbeResult) -> float | None:
    """The learning rate that the preset's rule gives for the batch that was found."""
    batch = batch_of(with_values(spec, {result.parameter: result.batch}), result.devices)
    ours = spec.scaling is not None and spec.scaling.batch == result.parameter
    return batch.wanted if batch is not None and ours else None


def _batch_parameter(spec: RunSpec, name: str) -> Parameter:
    wanted = name or (spec.scaling.batch if spec.scaling is not None else "")
    if not wanted:
        raise WrongInput(
            f"`{spec.preset}` does not say what its batch is",
            "name the parameter: --batch NAME; or give the preset the key `scaling`",
        )
    found = next((parameter for parameter in spec.parameters if parameter.name == wanted), None)
    if found is None or found.type != "int":
        known = (
            ", ".join(parameter.name for parameter in spec.parameters if parameter.type == "int")
            or "none"
        )
        raise WrongInput(f"`{wanted}` is no whole number among its parameters", f"those: {known}")
    return found


def _first(parameter: Parameter, first: int | None) -> int:
    if first is not None:
        return first
    value = parameter.value
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _refuse_outside(plan: LaunchPlan) -> None:
    """WrongInput when a trial would write checkpoints outside of its own folder."""
    for pattern in plan.checkpoints:
        if not Path(pattern).is_relative_to(plan.directory):
            raise WrongInput(
                f"its checkpoints go to {pattern}: trials would overwrite what is there",
                "send them into the run's folder, e.g. --set checkpoint_dir='${run_dir}/out'",
            )


def _remove(state: StateDirectory, runs: list[Run]) -> None:
    """Delete ended trials for good: what they showed is known."""
    deadline = time.monotonic() + _LAST_OUTPUT_S
    locks = [state.run(run.id).supervisor_lock for run in runs]
    while any(map(is_held, locks)) and time.monotonic() <= deadline:
        time.sleep(0.02)
    names = {run.id for run in delete(state, [read_run(state, run.id) for run in runs]).deleted}
    empty_trash(state, [run for run in list_deleted(state) if run.id in names])


def next_batch(tried: Sequence[ProbeStep], first: int, unit: int, most: int | None) -> int | None:
    """The next value to try, a multiple of `unit` of at most `most`; None when nothing is left.

    `first` is tried first; every batch is tried once.
    """
    fits = max((step.batch for step in tried if step.fits), default=0)
    fails = min((step.batch for step in tried if not step.fits), default=None)
    if not tried:
        return first
    if fails is None:
        wanted = fits * 2 if most is None else min(fits * 2, most // unit * unit)
        return wanted if wanted > fits else None
    if fails - fits <= max(unit, fits // FINENESS):
        return None
    middle = (fits + fails) // 2 // unit * unit
    return max(middle, fits + unit) if max(middle, fits + unit) < fails else None


def largest(tried: Sequence[ProbeStep]) -> ProbeStep | None:
    """The largest batch that fitted."""
    return max((step for step in tried if step.fits), key=lambda step: step.batch, default=None)
