"""Starting a run's program so that it outlives everybody, and signalling exactly what belongs to
it.

Standard library only: the supervisor imports it.
"""

import ctypes
import fcntl
import os
import signal
from collections.abc import Iterable

from runners.host.procfs import (
    MARK,
    descendants,
    group_of,
    mark_of,
    marked_processes,
    parent_of,
)

_PR_SET_CHILD_SUBREAPER = 36

# The waiter: about a megabyte of shell that outlives the supervisor and writes the exit status
# atomically.
# Its traps are handlers, not "ignore", because an ignored signal would stay ignored in the program
# itself. The leader's shell notes its pid and becomes the program, so the pid is the program's.
# Only the program writes to the output (descriptor 9 until then): the waiter's own words, such as
# "Killed", go nowhere.
WAITER = """
trap : HUP INT QUIT TERM
exit_file=$1 leader_file=$2; shift 2
(exec /bin/sh -c '(umask 077; printf "%s\\n" "$$" >"$0.new" && mv -f "$0.new" "$0"); exec "$@"' \\
  "$leader_file" "$@" >&9 2>&9 9>&-)
code=$?
(umask 077; printf "%s\\n" "$code" >"$exit_file.new" && mv -f "$exit_file.new" "$exit_file")
exit "$code"
"""


def become_subreaper() -> None:
    """Let orphans of this process's children become its own children (Linux); without it, marks
    still find them.
    """
    try:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def start_program(
    argv: list[str],
    environment: dict[str, str],
    directory: str,
    output: str,
    exit_file: str,
    leader_file: str,
    kept: Iterable[int],
) -> int:
    """Fork the waiter and the program below it, in a session of their own; return the waiter's pid.

    Output goes straight to the file `output` (appended), input comes from /dev/null; descriptors
    in `kept` (the run's lock) are inherited.
    """
    ready, failed = os.pipe()
    pid = os.fork()
    if pid:
        os.close(failed)
        problem = os.read(ready, 4096).decode("utf-8", "replace")
        os.close(ready)
        if problem:
            os.waitpid(pid, 0)
            raise OSError(problem)
        return pid
    try:
        os.setsid()
        os.chdir(directory)
        # None of these may have a number that is about to be replaced: dup2 onto itself stays
        # close-on-exec.
        failed = fcntl.fcntl(failed, fcntl.F_DUPFD_CLOEXEC, 10)
        null = os.open("/dev/null", os.O_RDONLY)
        log = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        log = fcntl.fcntl(log, fcntl.F_DUPFD_CLOEXEC, 10)
        for descriptor in kept:
            fcntl.fcntl(
                descriptor, fcntl.F_DUPFD, 10
            )  # inheritable, and out of the way of a shell's one digit
        os.dup2(null, 0)
        os.dup2(log, 9)
        for descriptor in (1, 2):
            os.dup2(os.open("/dev/null", os.O_WRONLY), descriptor)
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGPIPE,
            signal.SIGUSR1,
        ):
            signal.signal(number, signal.SIG_DFL)
        waiter = ["/bin/sh", "-c", WAITER, "fresnel-waiter", exit_file, leader_file, *argv]
        os.execve("/bin/sh", waiter, environment)
    except BaseException as error:
        os.write(failed, str(error).encode() or b"could not start")
    finally:
        os._exit(127)


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` ends; None where the kernel has none or `pid`
    is gone.
    """
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def run_processes(run_id: str, waiter: int | None) -> list[int]:
    """The run's processes but the waiter: those with its mark, and those below the waiter that
    lost it.
    """
    lost = [pid for pid in descendants(waiter) if mark_of(pid) is None] if waiter else []
    return [pid for pid in sorted({*marked_processes(run_id), *lost}) if pid != waiter]


def send_signal(pid: int, number: int, run_id: str, waiter: int | None = None) -> bool:
    """Signal `pid` only if it is the run's at that moment; False when it is not or is gone.

    It is when it carries the run's mark, or carries none (`env -i`, setproctitle) and descends
    from `waiter`.
    """
    descriptor = open_pidfd(pid)
    try:
        mark = mark_of(pid)
        if mark != run_id and (
            mark is not None or waiter is None or pid not in descendants(waiter)
        ):
            return False
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, number)
        else:
            os.kill(pid, number)
    except OSError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def signal_targets(run_id: str, target: str, leader: int | None, waiter: int | None) -> list[int]:
    """The pids a polite signal goes to: the leader, its process group, or the workers below it.

    Every torchrun rank is a session of its own, so workers are found by parentage, not by group.
    """
    everything = run_processes(run_id, waiter)
    if target == "group" and leader is not None:
        group = group_of(leader) or (group_of(waiter) if waiter else None)
        chosen = [pid for pid in everything if group_of(pid) == group]
    elif target == "workers" and leader is not None:
        chosen = [pid for pid in everything if parent_of(pid) == leader]
    else:
        chosen = [pid for pid in everything if pid == leader]
    return chosen or everything


def marked_environment(
    environment: dict[str, str], run_id: str, run_directory: str
) -> dict[str, str]:
    """`environment` with the run's mark and directory, which every process it starts inherits."""
    return {**environment, MARK: run_id, "FRESNEL_RUN_DIR": run_directory}
