"""A command that has so long and no longer, with all that it starts."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MOST_KEPT = 32 << 20
"""Bytes: of what a command goes on printing, what came before the last of it fills no memory."""
_BLOCK = 1 << 16


def run_in_time(
    argv: Sequence[str], seconds: float | None, **options: Any
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command that is given nothing to read. Raises OSError, TimeoutExpired after `seconds`.

    When its time is over, or whoever waits is interrupted, its whole session is killed. Of what it
    prints into a pipe the last MOST_KEPT bytes are kept.
    """
    until = None if seconds is None else time.monotonic() + seconds
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, start_new_session=True, **options
    ) as child:
        try:
            output, errors = _read(child, until)
            child.wait(_left(child, until))
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, child.returncode, output, errors)


def _read(child: "subprocess.Popen[bytes]", until: float | None) -> tuple[bytes, bytes]:
    """The ends of what it printed, and of its errors, once nobody can print any more."""
    kept = bytearray(), bytearray()
    with selectors.DefaultSelector() as open_pipes:
        for stream, into in zip((child.stdout, child.stderr), kept, strict=True):
            if stream is not None:
                open_pipes.register(stream, selectors.EVENT_READ, into)
        while open_pipes.get_map():
            for pipe, _ in open_pipes.select(_left(child, until)):
                block = os.read(pipe.fd, _BLOCK)
                pipe.data.extend(block)
                del pipe.data[:-MOST_KEPT]
                if not block:
                    open_pipes.unregister(pipe.fileobj)
    return bytes(kept[0]), bytes(kept[1])


def _left(child: "subprocess.Popen[bytes]", until: float | None) -> float | None:
    if until is None:
        return None
    left = until - time.monotonic()
    if left <= 0:
        raise subprocess.TimeoutExpired(child.args, 0.0)
    return left
