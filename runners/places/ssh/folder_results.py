"""What a run wrote into the folder that was pushed for it, found where the run lies."""

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from runners.model.run import Run
from runners.places.ssh.push_list import EXCLUDES

_NUMBERS = re.compile(r"\d+")
_WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors")
_LEFT_OUT = tuple(pattern for pattern in EXCLUDES if pattern != "wandb")
_MARGIN_S = 2.0
"""File systems and clocks of one machine differ by so much at most."""


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Whether a path, as it is written, is one of `tops` or lies below one."""
    parts = path.split("/")
    return ".." not in parts and any(
        path == top or path.startswith(f"{top.rstrip('/')}/") for top in tops
    )


def pushed_folder_of(run: Run, folders: Sequence[str]) -> str:
    """The run's working directory when it is one of these folders, or below; else empty."""
    folder = run.plan.working_directory if run.plan is not None else ""
    return folder if folder and is_below(folder, folders) else ""


def written_files(
    folder: str, run: Run, checkpoints: str, is_known: Callable[[Path], bool]
) -> list[Path]:
    """The plain files below `folder` that changed while the run ran, sorted.

    Those that `is_known`, as checkpoints that were chosen from already, are left out. Of other
    weights in one folder whose names differ by numbers alone, as those of epochs do, with `best`
    those called so and the newest, with `none` none.
    """
    begin = run.created  # what was pushed was there before
    end = run.ended + _MARGIN_S if run.ended is not None else float("inf")
    found: dict[Path, float] = {}
    for path in _plain_files(folder):
        try:
            status = path.lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and begin <= status.st_mtime <= end and not is_known(path):
            found[path] = status.st_mtime
    if checkpoints == "all":
        return sorted(found)
    newest = {_series(path): path for path in sorted(found, key=found.__getitem__)}
    keeps_some = checkpoints != "none"
    return sorted(
        path
        for path in found
        if path.suffix not in _WEIGHTS
        or (keeps_some and ("best" in path.name or newest[_series(path)] == path))
    )


def _series(path: Path) -> Path:
    return path.with_name(_NUMBERS.sub("0", path.name))


def _plain_files(folder: str) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(name)]
        yield from (Path(top, name) for name in names if not _is_left_out(name))


def _is_left_out(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _LEFT_OUT)
