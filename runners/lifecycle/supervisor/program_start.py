"""Starting a run's program so that it outlives the panel, the supervisor and the login."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runners.host.clock import moment_now
from runners.host.exit_status import MOST_BYTES, spell_exit_status
from runners.host.files import read_plain, replace
from runners.host.procfs import HELPER_MARK, MARK
from runners.host.replaced_code import stop_looking

# The shell resolves the program's name, and runs a script without a first line of its own, as a
# person's shell does. It becomes the program, so its pid is the program's.
_SHELL = ("/bin/sh", "-c", 'exec "$@"')


class Program(NamedTuple):
    """What is started, where, and the files of its run in which it leaves its traces."""

    argv: list[str]
    environment: dict[str, str]
    directory: str
    output: str
    exit_file: str
    leader_file: str


def start_program(
    program: Program, kept: Iterable[int], before: Callable[[int], object] = lambda _: None
) -> int:
    """Fork the waiter and the program below it, in their own session; return the waiter's pid.

    The waiter is a copy of this process that does nothing but wait: it outlives the supervisor, and
    writes the program's exit status down. `before` is called with its pid, before there is a
    program: who is killed in that call has started none. Output goes straight to the file `output`
    (appended), input comes from /dev/null; descriptors in `kept` (the run's lock) are inherited.
    Raises OSError when the program's shell cannot start.
    """
    # Close-on-exec: the read below ends without a word exactly when the program's shell has begun.
    ready, failed = os.pipe()
    may_begin, begin = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for descriptor in (ready, begin):
                os.close(descriptor)
            _wait(program, kept, may_begin, failed)
        except BaseException as error:
            os.write(failed, str(error).encode() or b"could not start")
        finally:
            os._exit(127)
    os.close(failed)
    os.close(may_begin)
    try:
        before(pid)
        with suppress(BrokenPipeError):
            os.write(begin, b"x")
    finally:
        os.close(begin)
    problem = os.read(ready, 4096).decode("utf-8", "replace")
    os.close(ready)
    if problem:
        os.waitpid(pid, 0)
        raise OSError(problem)
    return pid


def _wait(program: Program, kept: Iterable[int], may_begin: int, failed: int) -> None:
    """Be the waiter: start the program once that is allowed, and write down how it ended."""
    stop_looking()
    os.setsid()
    os.chdir(program.directory)
    # Only here, in the child: the supervisor does without what it imports.
    from runners.host.open_files import raise_open_files

    raise_open_files()
    log = os.open(program.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    draft = _open_draft(program.exit_file)
    # Inheritable, and above the one digit that a shell can name.
    held = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in kept]
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    for descriptor in (1, 2):
        os.dup2(os.open("/dev/null", os.O_WRONLY), descriptor)
    _close_all_but(0, 1, 2, log, draft, may_begin, failed, *held)
    _set_command_line("fresnel-waiter", os.path.dirname(program.exit_file))
    signal.set_wakeup_fd(-1)
    _set_signals(signal.SIG_IGN)
    if not os.read(may_begin, 1):
        return
    waiter, leader = os.getpid(), os.fork()
    if leader == 0:
        _become(program, log, waiter)
    for descriptor in (log, may_begin, failed):
        os.close(descriptor)
    _record_status(leader, draft, program.exit_file)


def _become(program: Program, log: int, waiter: int) -> None:
    """Be the program: note the own pid, and become it by way of a shell."""
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    _set_signals(signal.SIG_DFL)
    # Until here nothing was done: without waiter and supervisor an adopter starts it again.
    if os.getppid() != waiter:
        os._exit(127)
    with suppress(OSError):  # a full disk is no reason not to start
        replace(Path(program.leader_file), b"%d\n" % os.getpid(), sync=False)
    argv = [*_SHELL, program.leader_file, *program.argv]
    os.execve(argv[0], argv, program.environment)


def _record_status(leader: int, draft: int, exit_file: str) -> None:
    """Wait for the program and end as it did, its exit status written to `exit_file`.

    First written, then taken from the kernel: whoever is killed in between leaves the ended program
    to the supervisor, which takes its status then.
    """
    ended = os.waitid(os.P_PID, leader, os.WEXITED | os.WNOWAIT)
    assert ended is not None  # only with WNOHANG
    by_itself = ended.si_code == os.CLD_EXITED
    code = ended.si_status if by_itself else 128 + ended.si_status
    with suppress(OSError):  # a full disk: the supervisor learns it as the waiter's own
        os.write(draft, spell_exit_status(code, moment_now()))
        os.replace(draft_of(exit_file), exit_file)
    os.waitpid(leader, 0)
    os._exit(code)


def draft_of(exit_file: str | os.PathLike[str]) -> str:
    """Where the waiter writes the exit status, before it is whole and gets its name."""
    return f"{os.fspath(exit_file)}.new"


def name_exit_status(exit_file: Path) -> None:
    """Give the exit status its name, where the waiter was killed after it had written it."""
    draft = draft_of(exit_file)
    with suppress(OSError):
        if read_plain(draft, MOST_BYTES).endswith(b"\n"):
            os.replace(draft, exit_file)


def _open_draft(exit_file: str) -> int:
    try:
        return os.open(draft_of(exit_file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError:  # a full disk: the supervisor learns the status as the waiter's own
        return os.open(os.devnull, os.O_WRONLY)


def _close_all_but(*kept: int) -> None:
    """Close what this process inherited as a copy: the supervisor's lock and pipes among it."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # that of the list itself
                os.close(int(name))


def _set_signals(handler: signal.Handlers) -> None:
    """Handle every signal so: a waiter outlives what is sent to the whole group of its program."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        with suppress(OSError):  # those that the C library keeps for itself
            signal.signal(number, handler)


def marked_environment(
    environment: dict[str, str], run_id: str, run_directory: str
) -> dict[str, str]:
    """`environment` with the run's mark and directory, which every process it starts inherits."""
    own = {name: value for name, value in environment.items() if name != HELPER_MARK}
    return {**own, MARK: run_id, "FRESNEL_RUN_DIR": run_directory}


def _set_command_line(*arguments: str) -> None:
    """Show `arguments` as this process's command line; what does not fit is cut.

    The kernel reads it from the process's own memory, between two addresses (`arg_start` and
    `arg_end`, fields 48 and 49 of proc_pid_stat(5)). Does nothing where they cannot be read.
    """
    import ctypes  # loaded already where this is needed: by a supervisor, which adopts orphans

    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        begin, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return
    text = b"\0".join(os.fsencode(argument) for argument in arguments)
    if 0 < begin < end:
        # The last byte stays 0: without it, the kernel would show the environment behind it too.
        ctypes.memmove(begin, text[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)
