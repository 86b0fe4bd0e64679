"""What a launch would come to now: the plan of each spec, the decision on it; nothing written."""

import os
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from runners.cost.prices import choose_price
from runners.cost.sessions import read_session
from runners.gpus.client import read_gpus
from runners.lifecycle.launch.dispatch import candidate_of, judge, resolve_after, waiting
from runners.lifecycle.launch.outlook import plan_launch
from runners.lifecycle.launch.planning import Planned
from runners.lifecycle.launch.probe_notes import probe_notes
from runners.lifecycle.launch.requirements import missing_packages
from runners.model.errors import WrongInput
from runners.model.gpus import GpuReading
from runners.model.plan import LaunchPlan
from runners.model.spec import Price, RunSpec
from runners.presets.reading.diagnostics import located
from runners.scheduling.allocation import Allocation
from runners.scheduling.memory_warning import oom_warnings
from runners.scheduling.policy import QueueDecision, allocation_of
from runners.state.layout import StateDirectory


def preview(
    state: StateDirectory, specs: Sequence[RunSpec]
) -> list[tuple[LaunchPlan, QueueDecision]]:
    """The plans that `specs` would run now, and the decisions on them; nothing is written."""
    return [(one.planned.plan, one.verdict) for one in foresee(state, specs)]


class Foreseen(NamedTuple):
    """What would become of one spec now; `reading` is the one its GPUs were chosen by."""

    spec: RunSpec
    planned: Planned
    verdict: QueueDecision
    reading: GpuReading | None


def foresee(state: StateDirectory, specs: Sequence[RunSpec]) -> list[Foreseen]:
    """As `preview`, with the programs' environments, secrets in clear: only for memory.

    Raises WrongInput when something that a spec names does not exist.
    """
    specs = [resolve_after(state, spec) for spec in specs]
    for spec in specs:
        check_texts(spec)
    reading = reading_for(state, specs)
    candidates = [
        candidate_of(f"~{i}", spec, time.time() + i * 1e-6) for i, spec in enumerate(specs)
    ]
    verdicts = judge(
        state, [*(waiting(state) if reading is not None else []), *candidates], reading
    )
    foreseen = []
    for spec, candidate in zip(specs, candidates, strict=True):
        verdict = verdicts[candidate.run]
        run_id = new_run_id(spec.name)
        allocation = warned(state, spec, allocation_of(verdict))
        with located(spec.source):
            planned = plan_launch(
                spec, state.run(run_id), allocation, reading, price_of(state, spec)
            )
        missing = missing_packages(spec, planned.plan.argv, planned.environment)
        if missing is not None:
            note = f"{missing.text}; to install: {missing.install}"
            plan = msgspec.structs.replace(planned.plan, notes=(note, *planned.plan.notes))
            planned = planned._replace(plan=plan)
        foreseen.append(Foreseen(spec, planned, verdict, reading))
    return foreseen


def check_texts(spec: RunSpec) -> None:
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


def new_run_id(name: str) -> str:
    """An id that sorts by time and reads well: 20261120-231502-gaussian-validate-7f3a."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:40] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{readable}-{os.urandom(2).hex()}"


def reading_for(state: StateDirectory, specs: Sequence[RunSpec]) -> GpuReading | None:
    """The GPUs now, where any of the specs wants some; else no driver is asked."""
    return read_gpus(state) if any(spec.gpus.wants_gpus for spec in specs) else None


def warned(state: StateDirectory, spec: RunSpec, allocation: Allocation) -> Allocation:
    """Return `allocation` with notes on GPUs whose free memory this preset's history exceeds.

    What a probe found to fit is noted too.
    """
    notes = oom_warnings(state, spec.preset, spec.name, allocation.gpus, spec.gpus.share_memory)
    notes += probe_notes(state, spec, allocation.gpus)
    return (
        msgspec.structs.replace(allocation, notes=allocation.notes + notes) if notes else allocation
    )


def price_of(state: StateDirectory, spec: RunSpec) -> Price | None:
    """What the run will pay: by its flag, else the session, else its preset. Raises WrongInput."""
    session = read_session(state)
    # A price given by hand outranks the session's, and that outranks the preset's.
    if spec.price is not None and spec.price_basis == "flag":
        return choose_price(spec.price, "flag")
    if session is not None:
        return session.price_per_gpu
    if spec.price is None:
        return None
    try:
        return choose_price(spec.price, spec.price_basis)
    except WrongInput as error:
        raise WrongInput(f"price: {error.message}", error.hint) from None
