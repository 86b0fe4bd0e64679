"""The one planner: what a launch of some specs comes to now.

Asked without a lock to show it, and under the allocation lock to do it. Nothing is written.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from runners.cost.cluster_price import cluster_price
from runners.cost.estimate import forecast
from runners.cost.prices import choose_price
from runners.cost.rates import device_count
from runners.cost.sessions import read_session
from runners.gpus.client import read_gpus
from runners.lifecycle.launch.dispatch import candidate_of, judge, resolve_after, waiting
from runners.lifecycle.launch.planning import Planned, make_plan
from runners.lifecycle.launch.unattended import denied_unattended
from runners.lifecycle.launch.unmasking import refuse_masked
from runners.model.closed import assert_never
from runners.model.errors import DeniedError, FresnelError, WrongInput
from runners.model.gpus import GpuReading
from runners.model.plan import Estimate, LaunchPlan, on_all_nodes
from runners.model.run_ids import is_run_id, launch_stamp, new_run_id
from runners.model.spec import Price, RunSpec
from runners.model.units import duration_text
from runners.presets.reading.diagnostics import located
from runners.presets.reading.user_settings import read_settings
from runners.scheduling.allocation import Allocation, Denied, awaited_gpus
from runners.scheduling.queue_order import Candidate, Granted, QueueDecision, Waiting
from runners.slurm.options import keys_of, ladder_s, over_nodes, refuse_unfit
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import list_run_ids
from runners.watch.metrics.checkpoint_place import epochs_done

SLURM_DECIDES = "Slurm decides when it starts"
_DEFAULT_LIMIT = 1.3
"""A time limit of a job that is not given is this much of the estimate, and its stop ladder."""


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
        match self.decision:
            case Denied(reason=reason, hint=hint):
                return DeniedError(reason, hint)
            case Waiting(reason=reason, hint=hint) if not queue:
                return DeniedError(reason, hint)
            case Waiting() | Granted():
                pass
            case _:
                assert_never(self.decision)
        missing = self.planned.missing
        if missing is not None:
            return WrongInput(missing.text, missing.install)
        return None


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
            price = _price_of(self._state, spec)
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
    allocation = _allocation(spec, decision, reading)
    planned = make_plan(spec, run, allocation, reading, price)
    expected = _forecast(run.home, spec, allocation, price)
    estimate_s = expected.seconds if expected else None
    placed, note = with_time_limit(planned.plan.spec, estimate_s)
    late = _late_note(planned.plan.limit_s, placed, estimate_s)
    plan = msgspec.structs.replace(
        planned.plan,
        spec=placed,
        phase=_phase(spec, decision),
        forecast=expected,
        notes=(*planned.plan.notes, *filter(None, (note, late))),
    )
    return PlannedRun(spec, planned._replace(plan=plan), decision, reading)


def _with_defaults(spec: RunSpec) -> RunSpec:
    """`spec` with what the user's settings say of the cluster, where it says nothing."""
    keys = keys_of(spec)
    if keys is None:
        return spec
    place = msgspec.structs.replace(spec.place, slurm=keys.over(read_settings().slurm))
    return msgspec.structs.replace(spec, place=place)


def with_time_limit(spec: RunSpec, estimate_s: float | None) -> tuple[RunSpec, str]:
    """`spec` with a time limit for its job where it has none, and what to say of that."""
    keys = keys_of(spec)
    if keys is None or keys.time is not None or not estimate_s:
        return spec, ""
    # The ladder begins before the limit: what it takes is no time to train in.
    keys = msgspec.structs.replace(keys, time=estimate_s * _DEFAULT_LIMIT + ladder_s(spec))
    place = msgspec.structs.replace(spec.place, slurm=keys)
    text = (
        f"time limit of the job: {_DEFAULT_LIMIT:g} × its estimate, and its stop ladder; "
        "place.slurm.time sets it"
    )
    return msgspec.structs.replace(spec, place=place), text


def _late_note(limit_s: float | None, spec: RunSpec, estimate_s: float | None) -> str:
    """What to say of a run that is ended by a limit before it is done, by its estimate."""
    keys = spec.place.slurm
    limits = [limit_s, keys.time if keys is not None else None]
    known = [limit for limit in limits if limit is not None]
    if estimate_s is None or not known or estimate_s <= min(known):
        return ""
    limit, needs = duration_text(min(known)), duration_text(estimate_s)
    return f"its limit ends it after {limit}, and it needs {needs} by its estimate"


def _phase(spec: RunSpec, decision: QueueDecision) -> Literal["queued", "granted", "final"]:
    if not isinstance(decision, Granted):
        return "queued"
    # Its supervisor lets a run with a search be planned once more, with the values suggested then.
    return "final" if spec.search is None else "granted"


def _forecast(
    state: StateDirectory, spec: RunSpec, allocation: Allocation, price: Price | None
) -> Estimate | None:
    """What it should take on its GPUs; while it waits, on such as it will be given."""
    gpus = allocation.gpus or allocation.awaited
    given = msgspec.structs.replace(allocation, gpus=gpus).assigned(spec.gpus.share_memory)
    given = on_all_nodes(given, spec.node)
    is_unknown = price is not None and price.per == "unit" and not price.units
    known = None if is_unknown else price
    done, asked = epochs_done(spec), allocation.asked
    return forecast(state, spec, gpus, known, device_count(given), done, asked)


def _allocation(spec: RunSpec, decision: QueueDecision, reading: GpuReading | None) -> Allocation:
    """Its GPUs; none while it waits."""
    if isinstance(decision, Granted):
        return decision.allocation
    asked = len(spec.gpus.ids) or spec.gpus.number
    return Allocation(awaited=awaited_gpus(spec.gpus, reading), asked=asked)


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


def _price_of(state: StateDirectory, spec: RunSpec) -> Price | None:
    """What the run will pay: by the session, else what it would by its own. Raises WrongInput."""
    if keys_of(spec) is not None and (charged := cluster_price()) is not None:
        return charged
    session = read_session(state)
    # One given by hand too says only what it would cost, and yet has to make sense.
    by_hand = None
    if spec.price is not None and spec.price_basis == "flag":
        by_hand = choose_price(spec.price, "flag")
    if session is not None:
        return session.price_per_gpu
    if by_hand is not None:
        return by_hand
    if spec.price is None:
        return None
    try:
        return choose_price(spec.price, spec.price_basis)
    except WrongInput as error:
        raise WrongInput(f"price: {error.message}", error.hint) from None
