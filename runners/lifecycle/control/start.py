"""Starting a run: choose its GPUs under one short lock, write its directory, supervise it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.host.locks import acquire, locked
from runners.host.procfs import HELPER_MARK, MARK, is_mounted
from runners.lifecycle.control.stop import reserve
from runners.lifecycle.launch.dispatch import (
    candidate_of,
    grant_all,
    judge,
    resolve_after,
    tell_why,
    waiting,
)
from runners.lifecycle.launch.git_snapshot import start_recording
from runners.lifecycle.launch.outlook import plan_launch
from runners.lifecycle.launch.planner import check_texts, new_run_id, price_of, reading_for, warned
from runners.lifecycle.launch.planning import Planned, masked_spec
from runners.lifecycle.launch.preconditions import refuse_untrusted
from runners.lifecycle.launch.requirements import missing_packages
from runners.lifecycle.launch.words import SECRET_PREFIX
from runners.lifecycle.supervisor.kept_environment import keep_environment
from runners.lifecycle.supervisor.spawn import poke_supervisor, spawn_supervisor
from runners.model.errors import DeniedError, WrongInput
from runners.model.gpus import GpuReading
from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.presets.reading.diagnostics import located
from runners.scheduling.allocation import Denied
from runners.scheduling.policy import (
    Candidate,
    Granted,
    QueueDecision,
    Waiting,
    allocation_of,
    decide,
)
from runners.state.layout import StateDirectory
from runners.state.requests import note_run
from runners.state.runs import read_run


def start_together(
    state: StateDirectory, specs: Sequence[RunSpec], queue: bool = True, request: str = ""
) -> list[Run]:
    """Start runs, all or none, or let them wait in the queue where GPUs are busy; return them.

    One lock is held around choosing GPUs for all of them and writing them down. A `request` is
    the one that was opened for this launch. Raises
    DeniedError when waiting would not help, or when `queue` is false and one would have to;
    WrongInput when something that one names does not exist; VerificationFailed when a check
    that its preset asks for fails.
    """
    refuse_untrusted(state.create())
    if not is_mounted():
        raise DeniedError(
            "/proc is not mounted: a run's processes could be neither found nor stopped",
            "mount it: mount -t proc proc /proc",
        )
    specs = [resolve_after(state, spec) for spec in specs]
    for spec in specs:
        check_texts(spec)
    if any(spec.verify for spec in specs):
        # This opens the run's interpreter and its data: only where a preset asks for it.
        from runners.verify.verify import refuse_failing

        specs = refuse_failing(state, specs)
    # Before the lock: a slow driver must not keep every launch waiting.
    reading = reading_for(state, specs)
    with locked(state.allocation_lock):
        verdicts, granted = _judge(state, specs, reading, queue)
        launches = [
            _prepare(state, spec, verdict, reading)
            for spec, verdict in zip(specs, verdicts, strict=True)
        ]
        descriptors = [_write(state, *launch, request) for launch in launches]
    for run_id in granted:
        poke_supervisor(state.run(run_id))
    plans = [planned.plan for _, planned, _ in launches]
    # Git takes its time while the supervisors start; its answer is not needed to run.
    recording = start_recording(
        {state.run(plan.run): Path(plan.working_directory) for plan in plans}
    )
    runs = []
    for (spec, planned, _), locks in zip(launches, descriptors, strict=True):
        try:
            spawn_supervisor(state.run(planned.plan.run), _environment(spec, planned), locks)
        finally:
            # The supervisor has inherited them: from here on only it keeps the locks.
            for descriptor in locks:
                os.close(descriptor)
        runs.append(read_run(state, planned.plan.run))
    recording.join()
    return runs


def _judge(
    state: StateDirectory, specs: Sequence[RunSpec], reading: GpuReading | None, queue: bool
) -> tuple[list[QueueDecision], list[str]]:
    """The decision on each spec, and which waiting runs were granted GPUs that had become free.

    Those come first. Raises DeniedError when a spec may not even wait.
    """
    now = time.time()
    # Microseconds apart: specs of one launch keep their order in the queue.
    new = [candidate_of(f"~{i}", spec, now + i * 1e-6) for i, spec in enumerate(specs)]
    waiting_now = waiting(state) if reading is not None else []  # without GPUs nobody is in the way
    _check_together(new, reading)
    verdicts = judge(state, [*waiting_now, *new], reading)
    for candidate in new:
        verdict = verdicts[candidate.run]
        if isinstance(verdict, Denied):
            raise DeniedError(verdict.reason, verdict.hint)
        if isinstance(verdict, Waiting) and not queue:
            raise DeniedError(verdict.obstacle, verdict.hint)
    return [verdicts[candidate.run] for candidate in new], grant_all(state, waiting_now, verdicts)


def _check_together(candidates: Sequence[Candidate], reading: GpuReading | None) -> None:
    """Raise DeniedError for a group that could not start even on this machine with nobody else."""
    candidates = [candidate for candidate in candidates if candidate.together]
    if len(candidates) < 2 or reading is None:
        return
    empty = [msgspec.structs.replace(gpu, processes=(), memory_used=0) for gpu in reading.gpus]
    alone = [msgspec.structs.replace(candidate, after=None) for candidate in candidates]
    verdicts = decide(alone, msgspec.structs.replace(reading, gpus=tuple(empty)), {}, {})
    for candidate in candidates:
        if isinstance(verdicts[candidate.run], Waiting):
            raise DeniedError(
                "the runs of this group cannot stand beside each other on "
                f"{len(reading.gpus)} GPUs",
                "give each of them GPUs that the others do not take",
            )


def _prepare(
    state: StateDirectory, spec: RunSpec, verdict: QueueDecision, reading: GpuReading | None
) -> tuple[RunSpec, Planned, QueueDecision]:
    run_id = new_run_id(spec.name)
    # A hundred launches in one second do share four hex digits.
    while state.run(run_id).path.exists():
        run_id = new_run_id(spec.name)
    allocation = warned(state, spec, allocation_of(verdict))
    with located(spec.source):
        planned = plan_launch(spec, state.run(run_id), allocation, reading, price_of(state, spec))
    missing = missing_packages(spec, planned.plan.argv, planned.environment)
    if missing is not None:
        raise WrongInput(missing.text, missing.install)
    if not isinstance(verdict, Granted):
        planned = planned._replace(plan=msgspec.structs.replace(planned.plan, phase="queued"))
    elif spec.search is not None:
        # Its supervisor lets it be planned once more, with the values that are suggested then.
        planned = planned._replace(plan=msgspec.structs.replace(planned.plan, phase="granted"))
    return spec, planned, verdict


def _environment(spec: RunSpec, planned: Planned) -> dict[str, str]:
    """The environment that the supervisor gets: its program's, or what it keeps while it waits."""
    return planned.environment if planned.plan.phase == "final" else _waiting_environment(spec)


def _waiting_environment(spec: RunSpec) -> dict[str, str]:
    """What a waiting supervisor keeps to plan the run later: environment and preset's secrets."""
    masked = masked_spec(spec).environment
    secrets_only = {
        name: value for name, value in spec.environment.items() if masked[name] != value
    }
    ours = {name: value for name, value in os.environ.items() if name not in (MARK, HELPER_MARK)}
    return ours | {SECRET_PREFIX + name: value for name, value in secrets_only.items()}


def _write(
    state: StateDirectory, spec: RunSpec, planned: Planned, verdict: QueueDecision, request: str
) -> list[int]:
    """Make the run's directory and take both its locks, which the supervisor inherits.

    So there is no moment at which the run exists and nobody holds them.
    """
    run = state.run(planned.plan.run)
    run.path.mkdir(mode=0o700)
    descriptors = [acquire(run.supervisor_lock), acquire(run.run_lock)]
    # Marked live only now: whoever finds the marker finds the locks held, and adopts nothing.
    state.live_marker(run.id).touch(mode=0o600)
    replace(run.spec, msgspec.json.encode(masked_spec(spec)))
    for name, text in planned.files.items():
        replace(run.path / name, text.encode())
    note_run(state, request, run.id)
    # The plan is what makes a GPU leased, so everything that it refers to is written before it.
    replace(run.plan, msgspec.json.encode(planned.plan))
    if not isinstance(verdict, Granted):
        tell_why(run, verdict)
    run.output.touch(mode=0o600)
    reserve(run)
    keep_environment(run, _environment(spec, planned))
    return [descriptor for descriptor in descriptors if descriptor is not None]
