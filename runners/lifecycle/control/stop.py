"""Asking a run to stop: write the request down, then poke its supervisor."""

import time

import msgspec

from runners.host.clock import Moment
from runners.host.files import overwrite, replace
from runners.host.identity import user_name
from runners.host.locks import is_held
from runners.host.procfs import process_state
from runners.lifecycle.launch.adopt import adopt
from runners.lifecycle.launch.preconditions import refuse_other_host, refuse_untrusted_run
from runners.lifecycle.supervisor.spawn import hand_over_stop, poke_supervisor
from runners.model.endings import Ending, asked_again
from runners.model.errors import FresnelError
from runners.model.plan import is_job
from runners.model.run import Run, StopIntent
from runners.state.codec import read_intent, read_record
from runners.state.layout import RunDirectory, StateDirectory

_HEARD_WITHIN_S = 5.0
_ANSWERS_WITHIN_S = 10.0
"""So much longer for one that Slurm passes on to another machine."""
_POLL_EVERY_S = 0.02
RESERVED = 1024
"""Bytes reserved for the intent at the launch: it must be possible to write it on a full disk."""


def request_stop(
    state: StateDirectory,
    run: Run,
    force: bool = False,
    ending: Ending | None = None,
    deadline: Moment | None = None,
) -> StopIntent:
    """Write the durable intent; asked again, it moves to the next rung.

    `force` goes to the last one at once; `ending` is what to record of the run, that this user
    stopped it where it is None. By a `deadline` the whole ladder is walked; a stop that is under
    way is hurried, and goes on where it is. Raises DeniedError for a run of another host, or one
    whose folder others may write; FresnelError when neither the disk nor a signal takes the
    request.
    """
    refuse_other_host(run, "stop")
    directory = state.run(run.id)
    refuse_untrusted_run(directory)
    intent = read_intent(directory)
    if intent is None:
        intent = StopIntent(time.time(), user_name(), 1, force, deadline=deadline)
        intent.ending = ending or intent.ending
    elif deadline is not None:
        intent.deadline = deadline
    else:
        intent.requests += 1
        intent.force = intent.force or force
        former, intent.ending = intent.ending, asked_again(intent.ending, ending)
        if intent.ending is not former:
            intent.by = user_name()
    # First the disk, then the signal: a poke that is lost only delays the stop.
    problem = _write(directory, intent)
    if is_job(run.plan):
        from runners.lifecycle.control.signal_job import signal_job  # few runs are jobs

        signal_job(directory, intent.force)
    elif is_held(directory.supervisor_lock):
        if problem is None:
            poke_supervisor(directory)
        elif not hand_over_stop(directory, force):
            raise FresnelError(
                f"{run.id}: the stop request cannot be written ({problem.strerror}), and its "
                "supervisor cannot be signalled",
                "make room, then try again",
            )
    else:
        adopt(state, run.id)
    return intent


def reserve(directory: RunDirectory) -> None:
    """Reserve space for a stop of the run, whatever happens to the disk. Raises OSError."""
    replace(directory.stop_reserve, b" " * RESERVED)


def _write(directory: RunDirectory, intent: StopIntent) -> OSError | None:
    """Write the intent, into the reserved space if there is no other; why it cannot, or None."""
    content = msgspec.json.encode(intent)
    try:
        replace(directory.stop, content)
        return None
    except OSError as error:
        problem = error
    try:
        if directory.stop.exists():
            overwrite(directory.stop, content, max(len(content), directory.stop.stat().st_size))
        else:
            overwrite(directory.stop_reserve, content, RESERVED)
            directory.stop_reserve.rename(directory.stop)
    except OSError:
        return problem
    return None


def why_unheard(state: StateDirectory, run: Run) -> str:
    """Why a forced stop of `run` has not been acted on seconds later; empty once it has.

    Acted on is one whose last rung is recorded, or whose program is gone.
    """
    directory, until = state.run(run.id), time.monotonic() + _HEARD_WITHIN_S
    if is_job(run.plan):
        until += _ANSWERS_WITHIN_S
    leader = directory.leader_pid()
    while True:
        record = read_record(directory)
        stop = None if record is None else record.stop
        if record is None or not record.state.is_live or (stop and stop.step >= stop.steps):
            return ""
        if not is_job(run.plan) and leader is not None and process_state(leader) in ("", "Z", "X"):
            return ""
        if time.monotonic() > until:
            break
        time.sleep(_POLL_EVERY_S)
    if is_job(run.plan):
        from runners.lifecycle.control.signal_job import cancel_job  # few runs are jobs

        return cancel_job(run, directory)
    if not is_held(directory.supervisor_lock):
        return f"it has no supervisor, and none could be started; see {directory.supervisor_log}"
    pid = record.supervisor_pid
    letter = "" if pid is None else process_state(pid)
    if letter in ("T", "t"):
        return f"its supervisor (pid {pid}) is suspended; `kill -CONT {pid}` lets it act"
    text = "waits for a disk or a driver (state D)" if letter == "D" else f"is in state {letter}"
    return f"its supervisor (pid {pid}) {text} and has done nothing for {_HEARD_WITHIN_S:g} s"
