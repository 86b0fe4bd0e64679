"""Ask a run to stop: write the wish down, then poke whoever supervises it."""

import os
import signal
import time

import msgspec

from runners.host.files import write_whole
from runners.host.identity import user_name
from runners.host.locks import is_held
from runners.lifecycle.control.adopt import adopt
from runners.model.paths import StateDirectory
from runners.model.run import Run, StopIntent


def request_stop(state: StateDirectory, run: Run, force: bool = False, reason: str = "") -> StopIntent:
    """Write the durable intent; asked again, it moves to the next rung; `force` goes to the last at once."""
    directory = state.run(run.id)
    try:
        intent = msgspec.json.decode(directory.stop.read_bytes(), type=StopIntent)
        intent.presses += 1
        intent.force = intent.force or force
    except (OSError, msgspec.DecodeError):
        intent = StopIntent(time.time(), user_name(), 1, force, reason)
    write_whole(directory.stop, msgspec.json.encode(intent))
    if is_held(directory.supervisor_lock):
        _poke(run)
    else:
        adopt(state, run.id)
    return intent


def _poke(run: Run) -> None:
    # The pid is the lock's holder; should it end in this instant, the intent on disk is found by its adopter.
    if run.record is not None and run.record.supervisor_pid is not None:
        try:
            os.kill(run.record.supervisor_pid, signal.SIGUSR1)
        except OSError:
            pass
