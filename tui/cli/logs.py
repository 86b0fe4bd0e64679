"""`logs`, and following a run's output."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TextIO

from runners.host.files import open_plain
from runners.host.tail import GrowingFile, data_before_hole, data_end
from runners.housekeeping import tend
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode, NotFound
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory, output_set_aside
from runners.state.runs import find_run
from tui.cli.output import print_json, write_bytes

_BLOCK = 1 << 20


class OutputBlocks:
    """What is appended to a run's output, piece by piece; nothing of holes that output_limit cut.

    `attempt` is whose output it is at first: one that was set aside since is read too. None for a
    file that is no run's own.
    """

    def __init__(self, path: Path, offset: int = 0, attempt: int | None = None) -> None:
        self._attempt = attempt
        self._file = GrowingFile(path, offset, hold=True)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def new(self) -> Iterator[bytes]:
        """Everything new; after a restart, the rest of the old file and then the new one."""
        if self._file.identity is None:
            yield from self._of_those_set_aside()
        more = True
        while more:
            block, more = self._next(self._file)
            if block:
                yield block
            # The next file has taken its place, which need not be the next attempt's any more.
            if more and self._file.identity is None and self._set_aside() is not None:
                self._attempt = (self._attempt or 0) + 1
                yield from self._of_those_set_aside()

    def _set_aside(self) -> Path | None:
        """What the attempt wrote that it is at, where another has begun since."""
        if self._attempt is None:
            return None
        path = output_set_aside(self._file.path.parent, self._attempt)
        return path if path.exists() else None

    def _of_those_set_aside(self) -> Iterator[bytes]:
        while (path := self._set_aside()) is not None:
            earlier, more = GrowingFile(path), True
            while more:
                block, more = self._next(earlier)
                if block:
                    yield block
            self._attempt = (self._attempt or 0) + 1

    def _next(self, file: GrowingFile) -> tuple[bytes, bool]:
        """What comes next, and whether there is more."""
        piece = file.read(_BLOCK)
        block = data_before_hole(piece.data)
        if len(block) < len(piece.data):
            # Of a hole nothing is shown: the next look moves over it.
            beginning = file.offset - len(piece.data)
            block = block or piece.data[: len(piece.data) - len(piece.data.lstrip(b"\0"))]
            file.move_to(beginning + len(block))
        return block, piece.more or len(block) < len(piece.data)


class OutputFollower:
    """Copies an output to `stream` as it grows, byte for byte or with a prefix per line."""

    def __init__(
        self, blocks: OutputBlocks, prefix: str = "", stream: TextIO | None = None
    ) -> None:
        self._blocks = blocks
        self._stream = stream or sys.stdout
        self.prefix = prefix.encode()
        self.at_line_start = True

    def __enter__(self) -> "OutputFollower":
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks.close()

    def copy(self) -> None:
        """Write everything new."""
        for block in self._blocks.new():
            write_bytes(self._labelled(block), self._stream)

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
    if arguments.ranks or arguments.rank is not None:
        from tui.cli.logs_of_rank import list_ranks, print_rank  # few ask for ranks

        tend(state)
        return (list_ranks if arguments.ranks else print_rank)(state, run, arguments)
    path = _output_of(state.run(run.id), arguments.node or 0)
    start = 0 if arguments.lines is None else last_lines_offset(path, arguments.lines)
    blocks = OutputBlocks(path, start, run.record.attempt if run.record is not None else 1)
    if arguments.json:
        return _print_lines(state, run, path, blocks, arguments.follow)
    with OutputFollower(blocks) as follower:
        follower.copy()
        if arguments.follow and run.is_live:
            tend(state)
            wait_until_ended(state, run.id, follower.copy)
            follower.copy()
    return ExitCode.DONE


def _output_of(run: RunDirectory, node: int) -> Path:
    """What the program wrote on a node. NotFound for one that has written nothing."""
    path = run.of_node(node) / run.output.name
    if node and not path.exists():
        raise NotFound(f"nothing of a node {node} in `{run.id}`", "the first node is 0")
    return path


def _print_lines(
    state: StateDirectory, run: Run, path: Path, blocks: OutputBlocks, follow: bool
) -> int:
    """The output as JSON: one document, or with -f a line of JSON for each line of output."""
    with closing(blocks):
        lines = _Lines(blocks)
        if not follow:
            print_json({"run": run.id, "path": str(path), "lines": [*lines.new(), *lines.rest()]})
            return ExitCode.DONE

        def emit(texts: Iterable[str]) -> None:
            for text in texts:
                print(json.dumps({"run": run.id, "text": text}), flush=True)

        emit(lines.new())
        if run.is_live:
            tend(state)
            wait_until_ended(state, run.id, lambda: emit(lines.new()))
        emit([*lines.new(), *lines.rest()])
    return ExitCode.DONE


class _Lines:
    """Whole lines of an output as it grows, as text; what is not UTF-8 is replaced."""

    def __init__(self, blocks: OutputBlocks) -> None:
        self._blocks = blocks
        self._part = b""

    def new(self) -> Iterator[str]:
        """The lines that were finished since the last look."""
        for block in self._blocks.new():
            # The zeros are the hole that output_limit cuts.
            *whole, self._part = (self._part + block.replace(b"\0", b"")).split(b"\n")
            yield from (_text(line) for line in whole)

    def rest(self) -> list[str]:
        """The last line, which does not end."""
        return [_text(self._part)] if self._part else []


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def last_lines_offset(path: Path, count: int) -> int:
    """Where the last `count` lines of a file begin, found from its end."""
    try:
        descriptor = open_plain(path)
    except OSError:
        return 0
    try:
        position = end = os.fstat(descriptor).st_size
        if count <= 0:
            return end
        # The newline that ends the last line begins no other.
        missing = count + 1 if end and os.pread(descriptor, 1, end - 1) == b"\n" else count
        while position > 0:
            begin = max(0, position - _BLOCK)
            block = os.pread(descriptor, position - begin, begin)
            if not block.strip(b"\0"):
                # A hole of gigabytes, cut by output_limit, is passed over in one step.
                position = data_end(descriptor, begin)
                continue
            at = len(block)
            while missing and (at := block.rfind(b"\n", 0, at)) >= 0:
                missing -= 1
            if not missing:
                return begin + at + 1
            position = begin
        return 0
    finally:
        os.close(descriptor)
