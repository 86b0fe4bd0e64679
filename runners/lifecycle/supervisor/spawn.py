"""Starting a supervisor out of reach of the terminal, and telling it to look at its run."""

import os
import signal
from collections.abc import Mapping, Sequence

from runners.host.files import append_event, open_private, read_json
from runners.host.helpers import HELPERS, command, marked
from runners.host.locks import is_held
from runners.host.procfs import catches, command_of, process_state, start_ticks
from runners.host.signals import STOP_FORCE, STOP_REQUEST, signal_process
from runners.model.errors import FresnelError
from runners.state.layout import RunDirectory
from runners.state.records import record_fields


def spawn_supervisor(
    run: RunDirectory, environment: Mapping[str, str], descriptors: Sequence[int]
) -> None:
    """Start the supervisor of `run`, which inherits `descriptors`.

    It is out of reach of the terminal and if possible the login. Isolated and without site packages
    (-I -S): nothing in the run's directory or environment changes it, and it stays small. Returns
    when it has detached; raises FresnelError when it did not.
    """
    from runners.host.detach import detach  # most commands only look whether one is to be adopted

    argv = command("supervisor", run.home.root, run.id, *map(str, descriptors))
    # An adopter's scope needs a name of its own: systemd may still have that of the dead one.
    unit = f"fresnel-{run.id}" if descriptors else f"fresnel-{run.id}-adopted-{os.getpid()}"
    mine = marked(environment, "supervisor")
    try:
        log = open_private(run.supervisor_log)
    except OSError:  # no inode left, or something that is no file: the run matters more
        log = open(os.devnull, "ab")  # noqa: SIM115
    with log:
        detached = detach(unit, argv, mine, descriptors, log, run.home.host / "scope.json")
    append_event(run.supervisor_events, "detached", **detached.fields())
    if detached.code:
        raise FresnelError(f"the supervisor of {run.id} did not start", f"see {run.supervisor_log}")


def supervisor_of(run: RunDirectory) -> tuple[int, int] | None:
    """The run's living supervisor, by pid and start in clock ticks; None when it cannot be proven.

    The record may still name one that was killed, and its pid may have any owner now.
    """
    pid = record_fields(read_json(run.state)).get("supervisor_pid")
    ticks = start_ticks(pid) if pid else None
    # The lock says that a supervisor lives, the command line that this pid is it. Without the
    # latter, a signal could end an innocent process.
    if pid is None or ticks is None or not is_held(run.supervisor_lock):
        return None
    argv = command_of(pid)
    file = f"{HELPERS['supervisor'].module.rpartition('.')[2]}.py"
    is_ours = run.id in argv and any(word.endswith(f"/{file}") for word in argv)
    return (pid, ticks) if is_ours else None


def poke_supervisor(run: RunDirectory) -> bool:
    """Tell a run's supervisor to look at its directory; False when none could be reached.

    What it must know is on disk, so a poke that is lost only delays it.
    """
    return _signal(run, signal.SIGUSR1)


def hand_over_stop(run: RunDirectory, force: bool) -> bool:
    """Ask a run's supervisor for a stop without the disk; False when it could not be reached."""
    return _signal(run, STOP_FORCE if force else STOP_REQUEST)


def suspended_supervisor(run: RunDirectory) -> int | None:
    """The pid of the run's supervisor when that process is stopped (SIGSTOP), else None."""
    found = supervisor_of(run)
    return found[0] if found and process_state(found[0]) in ("T", "t") else None


def _signal(run: RunDirectory, number: int) -> bool:
    found = supervisor_of(run)
    # One that has just started has no handler yet: the signal would end it.
    return found is not None and catches(found[0], number) and signal_process(*found, number)
