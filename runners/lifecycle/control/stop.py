"""Ask a run to stop: write the wish down, then poke whoever supervises it."""

import time

import msgspec

from runners.host.files import write_whole
from runners.host.identity import user_name
from runners.host.locks import is_held
from runners.lifecycle.control.adopt import adopt
from runners.lifecycle.control.preconditions import refuse_elsewhere, refuse_untrusted_run
from runners.lifecycle.supervisor.spawn import poke_supervisor
from runners.model.run import Run, StopIntent
from runners.state.layout import StateDirectory


def request_stop(
    state: StateDirectory, run: Run, force: bool = False, reason: str = ""
) -> StopIntent:
    """Write the durable intent; asked again, it moves to the next rung; `force` goes to the last
    at once.

    DeniedError for a run of another host, or one whose folder others may write.
    """
    refuse_elsewhere(run, "stop")
    directory = state.run(run.id)
    refuse_untrusted_run(directory)
    try:
        intent = msgspec.json.decode(directory.stop.read_bytes(), type=StopIntent)
        intent.presses += 1
        intent.force = intent.force or force
    except (OSError, msgspec.DecodeError):
        intent = StopIntent(time.time(), user_name(), 1, force, reason)
    write_whole(directory.stop, msgspec.json.encode(intent))
    if is_held(directory.supervisor_lock):
        poke_supervisor(directory)
    else:
        adopt(state, run.id)
    return intent
