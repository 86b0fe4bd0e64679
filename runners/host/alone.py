"""A helper process beyond any terminal, the only one of its kind."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from runners.host.locks import claim


def leave_terminal(log: Path, most: int = 0) -> None:
    """Ignore hang-up and Ctrl-C; write to `log`, emptied beyond `most` bytes, and read nothing."""
    # A closed terminal must not end a helper; SIGTERM still does.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    output = os.open(log, flags, 0o600)
    # What helpers print are problems only, so the newest are enough.
    if os.fstat(output).st_size > most:
        os.ftruncate(output, 0)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for target, source in ((0, null), (1, output), (2, output)):
        os.dup2(source, target)


def run_alone(lock: Path, work: Callable[[], object]) -> None:
    """Do `work` as the holder of `lock`, beyond any terminal; leave at once where another does it.

    What is printed goes to a log beside it: the traceback of an exception, which is raised, too.
    """
    if claim(lock) is None:
        return
    leave_terminal(lock.with_suffix(".log"))
    os.chdir("/")
    work()
