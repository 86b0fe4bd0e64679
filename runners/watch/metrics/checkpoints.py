"""The newest checkpoint that is really there and whole: never claimed, always seen on disk."""

import glob
from collections.abc import Iterable
from pathlib import Path

from runners.host.newest_file import newest
from runners.model.run import Checkpoint, Run
from runners.watch.metrics.printed_paths import CHECKPOINTS

_QUIET_S = 2.0
"""Seconds without a write, for a checkpoint whose format has no end mark."""
_GRAIN_S = 1.0


def newest_checkpoint(patterns: Iterable[str]) -> Checkpoint | None:
    """The newest whole file or folder that matches any glob pattern."""
    found = newest(patterns)
    return None if found is None else Checkpoint(*found)


def run_checkpoint(run: Run, printed: Iterable[str] = ()) -> Checkpoint | None:
    """The newest whole checkpoint of a run.

    One in its folder, or one written since it began, where its preset says or where the program
    said that it writes (`printed`).
    """
    if run.plan is None:
        return None
    found = newest(
        [*run.plan.checkpoints, *checkpoint_patterns(printed)],
        # Some file systems keep whole seconds only: a file may look older
        # than the run that wrote it.
        since=(run.started or run.created) - _GRAIN_S,
        own=run.directory,
        quiet_s=_QUIET_S if run.is_live else 0.0,
    )
    return None if found is None else Checkpoint(*found)


def checkpoint_patterns(printed: Iterable[str]) -> list[str]:
    """Glob patterns for the checkpoints among printed paths, and for those in printed folders."""
    patterns: list[str] = []
    for text in printed:
        path = Path(text)
        if path.suffix in CHECKPOINTS or path.name.startswith(("checkpoint-", "checkpoint_")):
            patterns.append(glob.escape(text))
        elif path.is_dir():
            patterns += [f"{glob.escape(text)}/*{suffix}" for suffix in CHECKPOINTS]
    return patterns
