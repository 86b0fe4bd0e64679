"""What may be done with a run that waits in the queue: change its priority, or cancel it."""

import msgspec

from runners.host.files import replace
from runners.host.locks import locked
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.launch.dispatch import dispatch
from runners.lifecycle.launch.preconditions import refuse_other_host, refuse_untrusted_run
from runners.model.errors import FresnelError, WrongInput
from runners.model.run import Run
from runners.model.spec import wrong_priority
from runners.state.codec import read_plan
from runners.state.layout import StateDirectory
from runners.state.runs import read_run


def set_priority(state: StateDirectory, run: Run, priority: int, is_step: bool = False) -> Run:
    """Let a queued `run` go before those of lower `priority`; the queue is judged again at once.

    `is_step`: `priority` is so much more than the run has. Raises WrongInput when it does not wait,
    DeniedError for another host's run, FresnelError when its files are damaged.
    """
    refuse_other_host(run, "priority")
    directory = state.run(run.id)
    refuse_untrusted_run(directory)
    with locked(state.allocation_lock):
        _refuse_unqueued(state, run, "its priority no longer matters")
        plan = read_plan(directory)
        if plan is None:
            raise FresnelError(f"{directory.plan} is missing or damaged", "launch the run again")
        if is_step:
            priority += plan.spec.priority
        if problem := wrong_priority(priority):
            raise WrongInput(f"priority {priority}: {problem}")
        spec = msgspec.structs.replace(plan.spec, priority=priority)
        replace(directory.plan, msgspec.json.encode(msgspec.structs.replace(plan, spec=spec)))
    dispatch(state)
    return read_run(state, run.id)


def cancel(state: StateDirectory, run: Run) -> None:
    """Take a queued `run` out of the queue before it starts; it ends as cancelled.

    Raises WrongInput when it does not wait, DeniedError for another host's run.
    """
    refuse_other_host(run, "cancel")
    state.create()
    # Under the lock nobody grants it GPUs, and a run that is to be stopped is granted none later.
    with locked(state.allocation_lock):
        _refuse_unqueued(state, run, f"`fresnel-tui stop {run.id}` stops what runs")
        request_stop(state, run)


def _refuse_unqueued(state: StateDirectory, run: Run, hint: str) -> None:
    plan = read_plan(state.run(run.id))
    if plan is None or plan.phase != "queued" or not run.is_live:
        now = read_run(state, run.id)
        raise WrongInput(f"{run.id} is not in the queue: it is {now.state}", hint)
