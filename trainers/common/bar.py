"""A progress bar for long preparations: one moving line on a terminal, or a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TextIO, TypeVar

T = TypeVar("T")


def bar(
    items: Iterable[T],
    title: str,
    total: int | None = None,
    every: float | None = None,
    stream: TextIO | None = None,
    shown: bool = True,
) -> Iterator[T]:
    """Yield items and show `WORDS  12/40 (30 %)  3.1/s  9 s left` on stderr, or in stream.

    On a terminal the line is rewritten ten times a second, else a new one comes every five seconds;
    the last one always comes. `shown` is for ranks: only the leader's is.
    """
    out = stream or sys.stderr
    live = out.isatty()
    wait = every
    if wait is None:
        wait = 0.1 if live else 5.0
    count = len(items) if total is None and isinstance(items, Sized) else total
    begun = last = time.monotonic()
    done = 0
    try:
        for item in items:
            yield item
            done += 1
            if shown and time.monotonic() - last >= wait and done != count:
                last = time.monotonic()
                _write(out, _line(title, done, count, last - begun), live)
    finally:
        if shown:
            _write(out, _line(title, done, count, time.monotonic() - begun), live)
            if live:
                out.write("\n")
            out.flush()


def _line(title: str, done: int, total: int | None, seconds: float) -> str:
    rate = done / seconds if seconds > 0 else 0.0
    if total is None:
        return f"{title}  {done}  {rate:.3g}/s"
    if done >= total:
        return f"{title}  {done}/{total}  done in {seconds:.1f} s"
    left = f"  {(total - done) / rate:.0f} s left" if rate else ""
    return f"{title}  {done}/{total} ({100 * done / max(1, total):.0f} %)  {rate:.3g}/s{left}"


def _write(out: TextIO, line: str, live: bool) -> None:
    # A line that wraps could not be rewritten.
    short = line[: shutil.get_terminal_size().columns - 1]
    out.write(f"\r\x1b[2K{short}" if live else f"{line}\n")
    out.flush()
