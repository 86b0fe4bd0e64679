"""Copying a part of a log: as text for a clipboard, as raw bytes into a file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from runners.host.files import expanded
from runners.watch.logs.filter import LineFilter
from runners.watch.logs.reader import BLOCK, LogLine, LogSource
from runners.watch.logs.render import read_line

_LINES = 200


class Lines(Protocol):
    """A log, or the part of it that a filter lets through."""

    def read_forward(self, start: int, count: int) -> list[LogLine]:
        """At most `count` lines from `start` on."""


class Text(NamedTuple):
    """Some lines as text, how many they are, and whether something had to be left out."""

    data: bytes
    lines: int
    cut: bool


class ExtractRefused(Exception):
    """A file will not be written; with `may_insist`, asking again with `!` overwrites it."""

    def __init__(self, why: str, may_insist: bool = False) -> None:
        super().__init__(why)
        self.may_insist = may_insist


def text_of(lines: Lines, first: int, last: int, cap: int) -> Text:
    """The lines that begin at `first` to `last`, without colours: at most `cap` bytes of UTF-8."""
    parts: list[bytes] = []
    size, at = 0, first
    while size <= cap and (
        some := [line for line in lines.read_forward(at, _LINES) if line.start <= last]
    ):
        for line in some:
            parts.append(read_line(line.data, line.more).text.encode())
            size += len(parts[-1]) + 1
            if size > cap + 1:
                break
        at = some[-1].end
    data = b"\n".join(parts)
    if len(data) <= cap:
        return Text(data, len(parts), False)
    # Cut inside a character: decoding drops what is left of it.
    return Text(data[:cap].decode("utf-8", "ignore").encode(), data[:cap].count(b"\n") + 1, True)


def check_target(text: str, folder: Path, log: Path) -> tuple[Path, bool]:
    """The file meant, and whether a final `!` lets it be overwritten. Raises ExtractRefused."""
    text = text.strip()
    insisted = text.endswith("!")
    if not (text := text.removesuffix("!").strip()) or "\0" in text:
        raise ExtractRefused("name a file")
    try:
        path = folder / expanded(text)
        if path.is_dir():
            raise ExtractRefused(f"{path} is a folder")
        # Not created: a mistyped path would leave folders behind.
        if not path.parent.is_dir():
            raise ExtractRefused(f"there is no folder {path.parent}")
        if not path.exists():
            return path, False
        if log.exists() and path.samefile(log):
            raise ExtractRefused("that is the log itself")
        if not path.is_file():
            raise ExtractRefused(f"{path} is not a plain file")
        if not insisted:
            size = path.stat().st_size
            raise ExtractRefused(
                f"{path.name} exists ({size:,} bytes): Enter again overwrites it", may_insist=True
            )
    except (OSError, RuntimeError) as why:
        raise ExtractRefused(str(why)) from why
    return path, True


def write_part(
    source: LogSource, path: Path, overwrite: bool, part: tuple[int, int], lines: LineFilter | None
) -> Iterator[tuple[float, int]]:
    """Write the raw bytes from `part[0]` to `part[1]`, all or only the lines of a filter.

    Yields the share that is done and the bytes written. A new file that is not finished, because
    the caller stopped or the disk is full, is removed again. Raises OSError.
    """
    start, end = part
    # "xb" for a new file: one that appeared since the check is not overwritten.
    with path.open("wb" if overwrite else "xb") as out:
        done = False
        try:
            for at in range(start - start % BLOCK, end, BLOCK):
                if lines is None:
                    out.write(source.read(max(start, at), min(end, at + BLOCK)))
                else:
                    _write_hits(source, out, lines, at // BLOCK, part)
                yield min(1.0, (at + BLOCK - start) / (end - start)), out.tell()
            # A line belongs to the block in which it ends: the last one may end in the next.
            if lines is not None and end > start:
                _write_hits(source, out, lines, (end - 1) // BLOCK + 1, part)
            out.flush()
            # The caller reports success: then the bytes are on disk.
            os.fsync(out.fileno())
            yield 1.0, out.tell()
            done = True
        finally:
            if not done and not overwrite:
                path.unlink(missing_ok=True)


def _write_hits(
    source: LogSource, out: BinaryIO, lines: LineFilter, block: int, part: tuple[int, int]
) -> None:
    if block * BLOCK >= source.size:
        return
    start, end = part
    for hit in lines.hits(block, now=True) or ():
        if start <= hit < end:
            at, stop = hit, min(source.end_of(hit), end)
            while at < stop and (data := source.read(at, min(stop, at + BLOCK))):
                out.write(data)
                at += len(data)
