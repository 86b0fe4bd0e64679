"""`logs`, and following a run's output."""

import argparse
import os
import sys
from pathlib import Path

from runners.housekeeping import tend
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode
from runners.state.layout import StateDirectory
from runners.state.runs import find_run

_BLOCK = 1 << 20
_EMPTY = bytes(4096)


class OutputFollower:
    """Copies what is appended to an output file to stdout, byte for byte, or with a prefix before
    every line.
    """

    def __init__(self, path: Path, offset: int = 0, prefix: str = "") -> None:
        self.path = path
        self.prefix = prefix.encode()
        self.at_line_start = True
        self.offset = offset
        self.descriptor = -1

    def __enter__(self) -> "OutputFollower":
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def copy(self) -> None:
        """Write everything new to stdout; after a restart, the rest of the old file and then the
        new one.
        """
        while True:
            if self.descriptor < 0:
                try:
                    self.descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    return
            while block := self._next_block():
                sys.stdout.buffer.write(self._labelled(block))
                self.offset += len(block)
            sys.stdout.buffer.flush()
            if not self._was_replaced():
                return
            # A file without a name is what output_limit wrote anew, shorter: all of it has been
            # shown.
            shown = self.path.stat().st_size if os.fstat(self.descriptor).st_nlink == 0 else 0
            os.close(self.descriptor)
            self.descriptor, self.offset = -1, shown

    def _next_block(self) -> bytes:
        """What comes at the offset, which first moves over a hole that output_limit cut; empty at
        the end.
        """
        block = os.pread(self.descriptor, _BLOCK, self.offset)
        empty = block.find(_EMPTY)
        if empty > 0:
            return block[:empty]
        if empty < 0:
            return block
        try:
            self.offset = max(self.offset, os.lseek(self.descriptor, self.offset, os.SEEK_DATA))
        except OSError:
            pass  # no hole, or nothing but one
        return os.pread(self.descriptor, len(_EMPTY), self.offset)

    def _was_replaced(self) -> bool:
        try:
            return self.path.stat().st_ino != os.fstat(self.descriptor).st_ino
        except OSError:
            return False

    def _labelled(self, block: bytes) -> bytes:
        if not self.prefix:
            return block
        begins, self.at_line_start = self.at_line_start, block.endswith(b"\n")
        inner = block[:-1] if self.at_line_start else block
        text = inner.replace(b"\n", b"\n" + self.prefix) + (b"\n" if self.at_line_start else b"")
        return (self.prefix if begins else b"") + text


def run_logs(arguments: argparse.Namespace) -> int:
    """Print a run's output as it was written; with -f until the run has ended."""
    state = StateDirectory()
    run = find_run(state, arguments.run)
    path = state.run(run.id).output
    start = 0 if arguments.lines is None else last_lines_offset(path, arguments.lines)
    with OutputFollower(path, start) as follower:
        follower.copy()
        if arguments.follow and run.is_live:
            tend(state)
            wait_until_ended(state, run.id, follower.copy)
            follower.copy()
    return ExitCode.DONE


def last_lines_offset(path: Path, count: int) -> int:
    """Where the last `count` lines of a file begin, found from its end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        position = end = os.fstat(descriptor).st_size
        if count <= 0:
            return end
        missing = count + 1 if end and os.pread(descriptor, 1, end - 1) == b"\n" else count
        while position > 0:
            begin = max(0, position - _BLOCK)
            block = os.pread(descriptor, position - begin, begin)
            at = len(block)
            while missing and (at := block.rfind(b"\n", 0, at)) >= 0:
                missing -= 1
            if not missing:
                return begin + at + 1
            position = begin
        return 0
    finally:
        os.close(descriptor)
