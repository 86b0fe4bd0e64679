"""What is appended to a run's output, as blocks, and copied as it grows."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from runners.host.tail import GrowingFile, data_before_hole
from runners.state.layout import output_set_aside
from tui.cli.output import write_bytes

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
