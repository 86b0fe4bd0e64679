"""A trainer's stacks on request: SIGUSR2 has Python write them into the run's folder.

So a control panel sees where a rank hangs without the right to trace it. Python's faulthandler
writes them in the signal's own handler, also while the interpreter waits in C.
"""

from __future__ import annotations

import faulthandler
import os
import signal

from trainers.common.report import run_directory


def answer_with_stacks() -> bool:
    """Let SIGUSR2 append all threads' stacks to `$FRESNEL_RUN_DIR/stacks/answer.PID.txt`.

    False where no panel has started the program, its folder cannot be written, or the signal is
    taken already.
    """
    folder = run_directory()
    number = getattr(signal, "SIGUSR2", None)
    if folder is None or number is None or signal.getsignal(number) != signal.SIG_DFL:
        return False
    try:
        (folder / "stacks").mkdir(mode=0o700, exist_ok=True)
        path = folder / "stacks" / f"answer.{os.getpid()}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    faulthandler.register(number, file=descriptor, all_threads=True)
    return True
