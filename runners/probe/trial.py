"""One trial of a probe: a real run of a few steps, through the ordinary launch, and its end."""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import gather_evidence
from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis
from runners.gpus.client import latest
from runners.gpus.usage import read_usage
from runners.lifecycle.control.start import start_together
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.control.wait import wait_until_ended
from runners.lifecycle.launch.probe_results import ProbeStep
from runners.model.endings import Ending, EndingCause
from runners.model.errors import FresnelError
from runners.model.parameters import with_values
from runners.model.python_command import computing_processes
from runners.model.run import Run
from runners.model.scaling import batch_of
from runners.model.spec import ParameterValue, RestartRule, RunSpec, StopRule
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run
from runners.watch.metrics.live import LiveReport

OUT_OF_MEMORY = ("gpu_out_of_memory",)
_LONGEST_RUNG_S = 20.0
_POLL_S = 0.1
_PROGRESS_EVERY_S = 0.5


class TrialFailed(FresnelError):
    """A trial ended for another reason than memory: the probe cannot go on."""


class TrialLength(NamedTuple):
    """How long a trial goes on: `steps` after its first, or until `patience_s` is over."""

    steps: int = 10
    patience_s: float = 600.0


class _Watch:
    """What a trial shows while it runs: steps since the first, its pace, peak memory."""

    def __init__(self, state: StateDirectory, run: Run) -> None:
        self.state = state
        self.report = LiveReport(run)
        self.begun = time.monotonic()
        self.first: tuple[float, float] | None = None
        self.newest: tuple[float, float] | None = None
        self.peak: int | None = None
        self._looked = float("-inf")
        self._uuids = {gpu.uuid for gpu in run.plan.gpus} if run.plan else set()

    def poll(self, run: Run) -> None:
        """Take in what is new, twice a second."""
        now = time.monotonic()
        if now - self._looked < _PROGRESS_EVERY_S:
            return
        self._looked = now
        self.report.poll(run)
        course = self.report.course
        done = course.step if course.step is not None else course.epoch
        if done is not None and (self.newest is None or done > self.newest[1]):
            moment = course.last_time or time.time()
            self.first = self.first or (moment, float(done))
            self.newest = (moment, float(done))
        reading = latest(self.state)
        if reading is not None:
            used = [
                gpu.memory_used
                for gpu in reading.gpus
                if gpu.uuid in self._uuids and gpu.memory_used is not None and not gpu.simulated
            ]
            self.peak = max([*used, self.peak or 0]) if used else self.peak

    @property
    def steps(self) -> float:
        """Steps, or epochs where it counts nothing else, after the first that was seen."""
        return self.newest[1] - self.first[1] if self.first and self.newest else 0.0

    def samples_per_s(self, batch: int) -> float | None:
        """Samples a second in all: as the program says, else by its steps."""
        rate = self.report.course.progress(time.time())
        if rate.rate is not None and rate.rate_unit in ("samples", "images", "examples"):
            return rate.rate
        course = self.report.course
        if course.step is None or self.first is None or self.newest is None or not self.steps:
            return None
        seconds = self.newest[0] - self.first[0]
        return batch * self.steps / seconds if seconds > 0 else None


def trial_spec(spec: RunSpec, parameter: str, batch: int) -> RunSpec:
    """`spec` as a trial: another batch, a short stop ladder, no restarts, a name that says so.

    Parameters that say where checkpoints go lead into its own folder: nothing is written over.
    """
    folders: dict[str, ParameterValue] = {
        parameter.name: f"${{run_dir}}/{parameter.name}"
        for parameter in spec.parameters
        if any(f"${{parameters.{parameter.name}}}" in pattern for pattern in spec.checkpoints)
    }
    rungs = tuple(
        msgspec.structs.replace(rung, wait_s=min(rung.wait_s, _LONGEST_RUNG_S))
        for rung in spec.stop.ladder
    )
    return msgspec.structs.replace(
        with_values(spec, {**folders, parameter: batch}),
        # Its memory and pace are no history of the preset's own.
        preset=f"{spec.preset}-probe",
        name=f"{spec.name}-probe-{batch}",
        stop=StopRule(rungs, spec.stop.target),
        restart=RestartRule(),
        keep=None,
        after=None,
        group="",
        verify=(),
    )


def try_batch(
    state: StateDirectory,
    spec: RunSpec,
    parameter: str,
    batch: int,
    length: TrialLength,
    started: Callable[[Run], None] = lambda run: None,
) -> ProbeStep:
    """Run `batch` until it has done its steps or has ended; everything it started has ended then.

    Raises TrialFailed when it ends for another reason than memory, or does nothing in its time.
    An interruption stops the run by its ladder before it goes on.
    """
    trial = trial_spec(spec, parameter, batch)
    try:
        run = start_together(state, [trial], queue=False)[0]
    except KeyboardInterrupt:
        for run in _begun(state, trial):
            started(run)
            _end(state, run)
        raise
    try:
        started(run)
        watch = _Watch(state, run)
        while (run := read_run(state, run.id)).is_live and watch.steps < length.steps:
            watch.poll(run)
            if time.monotonic() - watch.begun > length.patience_s:
                break
            time.sleep(_POLL_S)
        stopped = run.is_live
    finally:
        ended = _end(state, run)
    devices = computing_processes(run.plan) if run.plan is not None else 1
    simulated = run.plan is not None and any(gpu.simulated for gpu in run.plan.gpus)
    if not stopped and ended.state is State.FAILED:
        _explain(ended, batch)
        return ProbeStep(batch, False, run=run.id, simulated=simulated)
    if stopped and watch.newest is None:
        problem = f"batch {batch}: no step was seen within {length.patience_s:g} s"
        hint = "allow more time: --within 30m; steps are read as `fresnel-tui metrics` reads them"
        raise TrialFailed(problem, hint)
    samples = batch_of(with_values(spec, {parameter: batch}), devices)
    total = samples.total if samples is not None else batch
    measured = [use.peak_memory for use in read_usage(state.run(run.id).path) if use.peak_memory]
    peak = max([*measured, watch.peak or 0]) or None
    return ProbeStep(batch, True, peak, watch.samples_per_s(total), run.id, simulated)


def _begun(state: StateDirectory, trial: RunSpec) -> list[Run]:
    """Live runs of this trial: one that was interrupted while it was being started."""
    live = [read_run(state, run_id) for run_id in live_run_ids(state)]
    return [run for run in live if (run.preset, run.name) == (trial.preset, trial.name)]


def _end(state: StateDirectory, run: Run) -> Run:
    """Stop the run if it is live, and wait until nothing of it is left."""
    if read_run(state, run.id).is_live:
        request_stop(state, run, ending=Ending(cause=EndingCause.PROBE))
    try:
        return wait_until_ended(state, run.id)
    except KeyboardInterrupt:
        # A second Ctrl-C: no more patience with its ladder, but nothing stays behind.
        request_stop(state, run, force=True)
        return wait_until_ended(state, run.id)


def _explain(run: Run, batch: int) -> None:
    """TrialFailed unless the run ran out of GPU memory."""
    verdict = diagnose(gather_evidence(run), load_signatures())
    if verdict.kind in OUT_OF_MEMORY:
        return
    cause = verdict.cause if isinstance(verdict, Diagnosis) else verdict.message
    raise TrialFailed(
        f"batch {batch} failed for a reason other than memory: {cause}",
        f"`fresnel-tui diagnose {run.id}`",
    )
