"""Start a run: choose its GPUs under one short lock, write its directory, hand it to a supervisor."""

import os
import re
import secrets
import time

import msgspec

from runners.backends.local import spawn_supervisor
from runners.cost.prices import choose_price
from runners.cost.sessions import read_session
from runners.host.files import write_whole
from runners.host.locks import acquire, locked
from runners.lifecycle.planning import Planned, make_plan, masked_spec
from runners.lifecycle.store import read_run
from runners.model.errors import DeniedError
from runners.model.gpus import GpuReading
from runners.model.paths import StateDirectory
from runners.model.plan import LaunchPlan
from runners.model.run import Run
from runners.model.spec import Price, RunSpec
from runners.placement.allocation import Allocation, Denied, allocate
from runners.placement.leases import held_leases
from runners.placement.reading import read_gpus


def start(state: StateDirectory, spec: RunSpec) -> Run:
    """Start `spec` and return its run; DeniedError when its GPUs are not free, WrongInput when it cannot run."""
    state.create()
    reading = _reading(state, spec)
    with locked(state.allocation_lock):
        allocation = _allocate(state, spec, reading)
        run_id = new_run_id(spec.name)
        planned = make_plan(spec, run_id, state.run(run_id).path, allocation, reading, _price(state, spec))
        descriptors = _write(state, spec, planned)
    try:
        spawn_supervisor(state.run(run_id), planned.environment, descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return read_run(state, run_id)


def preview(state: StateDirectory, spec: RunSpec) -> tuple[LaunchPlan, Denied | None]:
    """The plan `spec` would run by now, and the refusal it would meet; nothing is written or started."""
    reading = _reading(state, spec)
    answer = allocate(spec.gpus, reading, held_leases(state))
    allocation = Allocation() if isinstance(answer, Denied) else answer
    run_id = new_run_id(spec.name)
    planned = make_plan(spec, run_id, state.run(run_id).path, allocation, reading, _price(state, spec))
    return planned.plan, answer if isinstance(answer, Denied) else None


def new_run_id(name: str) -> str:
    """An id that sorts by time and reads well: 20261120-231502-gaussian-validate-7f3a."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:40] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{readable}-{secrets.token_hex(2)}"


def _reading(state: StateDirectory, spec: RunSpec) -> GpuReading | None:
    return read_gpus(state) if spec.gpus.wants_gpus else None


def _allocate(state: StateDirectory, spec: RunSpec, reading: GpuReading | None) -> Allocation:
    answer = allocate(spec.gpus, reading, held_leases(state) if spec.gpus.wants_gpus else {})
    if isinstance(answer, Denied):
        raise DeniedError(answer.reason, answer.hint)
    return answer


def _price(state: StateDirectory, spec: RunSpec) -> Price | None:
    session = read_session(state)
    if spec.price is not None and spec.price_basis == "flag":
        return choose_price(spec.price, "flag")
    if session is not None:
        share = session.rate / max(session.gpus, 1)
        return msgspec.structs.replace(session.price, usd_per_hour=str(share), per="gpu", basis="session")
    return None if spec.price is None else choose_price(spec.price, spec.price_basis)


def _write(state: StateDirectory, spec: RunSpec, planned: Planned) -> list[int]:
    """Make the run's directory and take both its locks, which the supervisor inherits: no gap for anybody."""
    run = state.run(planned.plan.run)
    run.path.mkdir(mode=0o700)
    descriptors = [acquire(run.supervisor_lock), acquire(run.run_lock)]
    # Marked live only now: whoever finds the marker finds the locks held, and adopts nothing.
    state.live_marker(run.id).touch(mode=0o600)
    write_whole(run.spec, msgspec.json.encode(masked_spec(spec)))
    write_whole(run.plan, msgspec.json.encode(planned.plan))
    run.output.touch(mode=0o600)
    return [descriptor for descriptor in descriptors if descriptor is not None]
