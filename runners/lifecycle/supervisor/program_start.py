"""Starting a run's program so that it outlives the panel, the supervisor and the login."""

import fcntl
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from runners.host.files import read_plain
from runners.host.procfs import HELPER_MARK, MARK

# The waiter: about a megabyte of shell that outlives the supervisor and writes the exit status
# atomically. Its traps are handlers, not "ignore", because an ignored signal would stay ignored in
# the program itself. The leader's shell writes its pid to a file and then becomes the program, so
# the pid is the program's. Only the program writes to the output (descriptor 9 until then): the
# waiter's own messages, such as "Killed", go nowhere. The exit status is one write after the shell
# has reaped the program, to a file that is open since the start (descriptor 8): a shell cannot look
# at a status without taking it, so what is killed in between takes it along.
WAITER = """
trap : HUP INT QUIT TERM
exit_file=$1 leader_file=$2; shift 2
(exec /bin/sh -c '(umask 077; printf "%s\\n" "$$" >"$0.new" && mv -f "$0.new" "$0"); exec "$@"' \\
  "$leader_file" "$@" >&9 2>&9 8>&- 9>&-)
code=$?
printf "%s\\n" "$code" >&8 && mv -f "$exit_file.new" "$exit_file"
exit "$code"
"""
_MOST_OPEN_FILES = 1 << 20
"""Not more: programs that close every file they may have open take a second for so many.

They take minutes for the thousand million that some containers allow.
"""


def start_program(
    argv: list[str],
    environment: dict[str, str],
    directory: str,
    output: str,
    exit_file: str,
    leader_file: str,
    kept: Iterable[int],
) -> int:
    """Fork the waiter and the program below it, in their own session; return the waiter's pid.

    Output goes straight to the file `output` (appended), input comes from /dev/null; descriptors in
    `kept` (the run's lock) are inherited. Raises OSError when the program's shell cannot start.
    """
    # Close-on-exec: the read below ends without a word exactly when the exec succeeded.
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
        _raise_open_files()
        # None of these may have a number that is about to be replaced: dup2
        # onto itself would stay close-on-exec.
        failed = fcntl.fcntl(failed, fcntl.F_DUPFD_CLOEXEC, 10)
        null = os.open("/dev/null", os.O_RDONLY)
        log = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        log = fcntl.fcntl(log, fcntl.F_DUPFD_CLOEXEC, 10)
        for descriptor in kept:
            # Inheritable, and above the one digit that a shell can name.
            fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
        draft = fcntl.fcntl(_open_draft(exit_file), fcntl.F_DUPFD_CLOEXEC, 10)
        os.dup2(null, 0)
        os.dup2(draft, 8)
        os.dup2(log, 9)
        for descriptor in (1, 2):
            os.dup2(os.open("/dev/null", os.O_WRONLY), descriptor)
        # The supervisor ignores or handles these; what is ignored would stay so across the exec.
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


def draft_of(exit_file: str | os.PathLike[str]) -> str:
    """Where the waiter writes the exit status, before it is whole and gets its name."""
    return f"{os.fspath(exit_file)}.new"


def name_exit_status(exit_file: Path) -> None:
    """Give the exit status its name, where the waiter was killed after it had written it."""
    draft = draft_of(exit_file)
    with suppress(OSError):
        if read_plain(draft, 16).endswith(b"\n"):
            os.replace(draft, exit_file)


def _open_draft(exit_file: str) -> int:
    try:
        return os.open(draft_of(exit_file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:  # a full disk: the supervisor learns the status as the waiter's own
        return os.open(os.devnull, os.O_WRONLY)


def _raise_open_files() -> None:
    """Let this process and its children open as many files as the hard limit allows.

    DataLoader workers need thousands, and the default is often 1024.
    """
    import resource  # only here, in the child: the supervisor does without

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def marked_environment(
    environment: dict[str, str], run_id: str, run_directory: str
) -> dict[str, str]:
    """`environment` with the run's mark and directory, which every process it starts inherits."""
    own = {name: value for name, value in environment.items() if name != HELPER_MARK}
    return {**own, MARK: run_id, "FRESNEL_RUN_DIR": run_directory}
