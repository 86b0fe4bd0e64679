"""What runs made of their GPUs, and what the host's did lately, as the sampler wrote it down."""

import time
from collections.abc import Iterator
from pathlib import Path

from runners.host.files import names_in, read_plain
from runners.model.gpus import GpuUse, HistoryLine, RunUsage
from runners.state.decoding import decode_lines, read
from runners.state.layout import NODES, StateDirectory

RECENT_S = 600.0
"""How far back the host's history of every second goes."""

_USAGE = "usage.json"


def usage_file(run: Path) -> Path:
    """Where the summary of a run's use of its GPUs lies, in its directory."""
    return run / _USAGE


def interval_file(run: Path) -> Path:
    """Where a run's GPUs are written down every 10 s, in its directory."""
    return run / "gpus.jsonl"


def recent_files(state: StateDirectory) -> tuple[Path, Path]:
    """The host's history: the file that grows, and the full one before it."""
    return state.readings / "gpus.recent.jsonl", state.readings / "gpus.recent.1.jsonl"


def read_usage(run: Path) -> tuple[GpuUse, ...]:
    """What the run in this directory made of its GPUs so far; empty when nothing is known.

    Those of its first node come first.
    """
    found: list[GpuUse] = []
    for folder in (run, *nodes_of(run)):
        usage = decode_usage(folder)
        if usage is not None and usage.run == run.name:
            found += usage.gpus
    return tuple(found)


def nodes_of(run: Path) -> list[Path]:
    """The folders of the other nodes of a run, by their ranks; none of a run on one."""
    names = filter(str.isdecimal, names_in(f"{run}/{NODES}"))
    return [run / NODES / name for name in sorted(names, key=int)]


def decode_usage(folder: Path) -> RunUsage | None:
    """usage.json of a run's directory, or of a node's in it; None when missing or damaged."""
    return read(f"{folder}/{_USAGE}", RunUsage)


def read_recent(state: StateDirectory, now: float | None = None) -> list[HistoryLine]:
    """This host's last ten minutes, oldest first; seconds without a reading are missing."""
    now = time.time() if now is None else now
    current, before = recent_files(state)
    return [
        line
        for path in (before, current)
        for line in _lines(path)
        if now - RECENT_S <= line.time <= now
    ]


def _lines(path: Path) -> Iterator[HistoryLine]:
    try:
        content = read_plain(path)
    except OSError:
        return
    yield from decode_lines(content.split(b"\n"), HistoryLine)
