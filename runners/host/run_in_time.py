"""A command that has so long and no longer, with all that it starts."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


def run_in_time(
    argv: Sequence[str], seconds: float | None, **options: Any
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command that is given nothing to read. Raises OSError, TimeoutExpired after `seconds`.

    When its time is over, or whoever waits is interrupted, its whole session is killed.
    """
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, start_new_session=True, **options
    ) as child:
        try:
            output, errors = child.communicate(timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, child.returncode, output, errors)
