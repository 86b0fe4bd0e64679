"""The one planner: what a launch of some specs comes to now.

Asked without a lock to show it, and under the allocation lock to do it. Nothing is written.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from runners.gpus.client import read_gpus
from runners.lifecycle.launch.dispatch import candidate_of, judge, resolve_after, waiting
from runners.lifecycle.launch.plan_costs import plan_costs, price_of
from runners.lifecycle.launch.planning import Planned, make_plan
from runners.lifecycle.launch.unattended import denied_unattended
from runners.lifecycle.launch.unmasking import refuse_masked
from runners.model.errors import DeniedError, FresnelError, WrongInput
from runners.model.gpus import GpuReading
from runners.model.plan import LaunchPlan
from runners.model.run_ids import is_run_id, launch_stamp, new_run_id
from runners.model.spec import Price, RunSpec
from runners.presets.reading.diagnostics import located
from runners.presets.reading.user_settings import read_settings
from runners.scheduling.allocation import Denied, awaited
from runners.scheduling.queue_order import Candidate, Granted, QueueDecision, Waiting
from runners.slurm.options import keys_of, over_nodes, refuse_unfit
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import list_run_ids

SLURM_DECIDES = "Slurm decides when it starts"


class PlannedRun(NamedTuple):
    """What becomes of one spec: its plan, the queue's decision on it.

    `reading` is the one its GPUs were chosen by. The plan's environment has secrets in clear: only
    for memory.
    """

    spec: RunSpec
    planned: Planned
    decision: QueueDecision
    reading: GpuReading | None = None

    @property
    def plan(self) -> LaunchPlan:
        """The plan as it may be shown and written."""
        return self.planned.plan

    def refusal(self, queue: bool = True) -> FresnelError | None:
        """Why a launch refuses it, None when it starts or, with `queue`, may wait."""
        decision, missing = self.decision, self.planned.missing
        if isinstance(decision, Denied) or (isinstance(decision, Waiting) and not queue):
            return DeniedError(decision.reason, decision.hint)
        return None if missing is None else WrongInput(missing.text, missing.install)


class PlannedLaunch(NamedTuple):
    """What becomes of specs that are launched together, and of the runs that wait before them."""

    runs: tuple[PlannedRun, ...]
    waiting: tuple[Candidate, ...]
    decisions: Mapping[str, QueueDecision]

    @property
    def own(self) -> list[QueueDecision]:
        """The decisions on the specs, whether or not all of them were planned."""
        before = {candidate.run for candidate in self.waiting}
        return [found for run, found in self.decisions.items() if run not in before]

    def refuse(self, queue: bool = True) -> None:
        """Raise what speaks against the first of the runs that may not even wait."""
        for run in self.runs:
            problem = run.refusal(queue)
            if problem is not None:
                raise problem


class Planner:
    """Specs that shall run together, checked, with a reading of the GPUs.

    What may take seconds (a slow driver) is done when it is made, so that no lock is held for it.
    Raises NotFound for an `after` that names no run, WrongInput for text that no file can hold.
    """

    def __init__(self, state: StateDirectory, specs: Sequence[RunSpec]) -> None:
        self._state = state
        self._specs = [over_nodes(_with_defaults(resolve_after(state, spec))) for spec in specs]
        for spec in self._specs:
            _check_texts(spec)
            refuse_masked(spec)
            if keys_of(spec):
                from runners.lifecycle.launch.submit import dependency_options

                refuse_unfit(spec)
                dependency_options(state, spec)  # or it is refused
        # A cluster chooses the GPUs itself, on machines that are not this one.
        wants_gpus = any(spec.gpus.wants_gpus and not keys_of(spec) for spec in specs)
        self._reading = read_gpus(state) if wants_gpus else None

    def plan(self, most: int | None = None) -> PlannedLaunch:
        """What the specs would come to now; under the allocation lock: what they come to.

        All are decided on, the first `most` are planned. Raises WrongInput when something that a
        spec names does not exist.
        """
        # Without GPUs nobody is in the way.
        before = waiting(self._state) if self._reading is not None else []
        candidates = self._candidates()
        pairs = list(zip(candidates, self._specs, strict=True))
        local = [candidate for candidate, spec in pairs if not keys_of(spec)]
        decisions = judge(self._state, [*before, *local], self._reading)
        decisions |= {
            candidate.run: Waiting(SLURM_DECIDES) for candidate, spec in pairs if keys_of(spec)
        }
        refused = denied_unattended(self._state, self._specs, self._reading)
        if refused is not None:
            decisions |= dict.fromkeys((candidate.run for candidate in candidates), refused)
        runs = tuple(
            self._plan_one(spec, candidate.run, decisions[candidate.run])
            for spec, candidate in [*zip(self._specs, candidates, strict=True)][:most]
        )
        return PlannedLaunch(runs, tuple(before), decisions)

    def _candidates(self) -> list[Candidate]:
        now, ids = time.time(), list_run_ids(self._state)
        stamp = launch_stamp(next(filter(is_run_id, reversed(ids)), ""))
        candidates: dict[str, Candidate] = {}
        for i, spec in enumerate(self._specs):
            run_id = new_run_id(spec.name, stamp)
            # A hundred launches in one second do share four hex digits.
            while run_id in candidates or self._state.run(run_id).path.exists():
                run_id = new_run_id(spec.name, stamp)
            # Microseconds apart: specs of one launch keep their order in the queue.
            candidate = candidate_of(run_id, spec, now + i * 1e-6)
            candidates[run_id] = msgspec.structs.replace(candidate, name=spec.name)
        return list(candidates.values())

    def _plan_one(self, spec: RunSpec, run_id: str, decision: QueueDecision) -> PlannedRun:
        run = self._state.run(run_id)
        with located(spec.source):
            price = price_of(self._state, spec)
            return plan_run(run, spec, decision, self._reading, price)


def plan_runs(state: StateDirectory, specs: Sequence[RunSpec]) -> tuple[PlannedRun, ...]:
    """What a launch of `specs` would come to now, to be shown. Raises as `Planner` does."""
    return Planner(state, specs).plan().runs


def plan_run(
    run: RunDirectory,
    spec: RunSpec,
    decision: QueueDecision,
    reading: GpuReading | None,
    price: Price | None,
) -> PlannedRun:
    """Plan one run for what the queue decided: complete, with all that is to be said of it.

    Raises WrongInput when a path, program or variable that it names does not exist.
    """
    if isinstance(decision, Granted):
        allocation = decision.allocation
    else:
        allocation = awaited(spec.gpus, reading)
    planned = make_plan(spec, run, allocation, reading, price)
    costs = plan_costs(run.home, planned.plan.spec, allocation, reading, price)
    plan = msgspec.structs.replace(
        planned.plan,
        spec=costs.spec,
        phase=_phase(spec, decision),
        forecast=costs.forecast,
        limit_s=costs.limit.seconds,
        limit_usd=costs.limit.usd,
        notes=(*planned.plan.notes, *costs.notes),
    )
    return PlannedRun(spec, planned._replace(plan=plan), decision, reading)


def _with_defaults(spec: RunSpec) -> RunSpec:
    """`spec` with what the user's settings say of the cluster, where it says nothing."""
    keys = keys_of(spec)
    if keys is None:
        return spec
    place = msgspec.structs.replace(spec.place, slurm=keys.over(read_settings().slurm))
    return msgspec.structs.replace(spec, place=place)


def _phase(spec: RunSpec, decision: QueueDecision) -> Literal["queued", "granted", "final"]:
    if not isinstance(decision, Granted):
        return "queued"
    # Its supervisor lets a run with a search be planned once more, with the values suggested then.
    return "final" if spec.search is None else "granted"


def _check_texts(spec: RunSpec) -> None:
    """Raise WrongInput for text that no file can hold, or a name that breaks every list."""
    if any(not char.isprintable() for char in spec.name):
        raise WrongInput(
            f"name {spec.name!r}: holds characters that cannot be shown", "choose another --name"
        )
    try:
        msgspec.json.encode(spec)
    except UnicodeEncodeError as error:
        raise WrongInput(
            f"not UTF-8 text: {error.object!r}", "programs get only arguments that are"
        ) from None
