"""Where in its run a checkpoint is: by the event that reported it, or by its name."""

import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from runners.host.files import is_file
from runners.model.late_pattern import late_pattern
from runners.model.spec import RunSpec

_LIGHTNING = late_pattern(r"epoch=(\d+)-step=\d+")
_EPOCH = late_pattern(r"(?<![a-z])ep(?:och)?[_=.-]?0*(\d+)(?!\d)", re.IGNORECASE)
_STEP = late_pattern(r"(?:^checkpoint-|(?<![a-z])(?:step|iter)[_=-]?)0*(\d+)(?!\d)", re.IGNORECASE)
_MOST_FILES = 1000
_TAKEN_FROM = ("model",)
"""Parameters that go on from a file of somebody else, as PCDiff's --model does."""


class CheckpointPlace(NamedTuple):
    """How many epochs or steps were done when a checkpoint was written; None where not known."""

    epoch: int | None = None
    step: int | None = None


def checkpoint_place(run: Path, checkpoint: Path) -> CheckpointPlace:
    """The place of a checkpoint of the run in the folder `run`."""
    # Planning asks this of few runs: most go on from nothing.
    from runners.watch.metrics.event_reader import EventReader

    reader, found = EventReader(run / "events.jsonl"), CheckpointPlace()
    for event in reader.all_new(jump=True):
        if event.type == "checkpoint" and event.path == str(checkpoint):
            found = CheckpointPlace(event.epoch, event.step)
    return found if found != CheckpointPlace() else _by_name(checkpoint)


def epochs_done(spec: RunSpec) -> int:
    """How many epochs a run has behind it when it begins, by the checkpoint it goes on from.

    0 where it begins anew or its place is not known. Of one that a person names, the number in
    its name: whether its program counts from 0 or 1 is the difference of an epoch.
    """
    if spec.resumed_from:
        path = Path(spec.resumed_from)
        folders = [folder for folder in path.parents if is_file(folder / "events.jsonl")]
        return checkpoint_place((folders or [path.parent])[0], path).epoch or _number(path)
    named = {spec.resume.parameter if spec.resume is not None else "", *_TAKEN_FROM}
    texts = [part.value for part in spec.parameters if part.name in named]
    paths = [Path(text) for text in texts if isinstance(text, str) and Path(text).suffix]
    return max(map(_number, paths), default=0)


def _number(checkpoint: Path) -> int:
    found = _EPOCH.search(checkpoint.name)
    return int(found[1]) if found else 0


def _by_name(checkpoint: Path) -> CheckpointPlace:
    if found := _LIGHTNING.search(checkpoint.name):
        return CheckpointPlace(int(found[1]) + 1)  # Lightning counts its epochs from 0
    if found := _STEP.search(checkpoint.name):
        return CheckpointPlace(step=int(found[1]))
    found = _EPOCH.search(checkpoint.name)
    first = _first_epoch(checkpoint, found) if found else None
    return CheckpointPlace(int(found[1]) + 1 - first) if found and first in (0, 1) else NOWHERE


def _first_epoch(checkpoint: Path, found: "re.Match[str]") -> int | None:
    """The least epoch in the names of the files beside it: the program counts from there."""
    before, after = checkpoint.name[: found.start(1)].rstrip("0"), checkpoint.name[found.end(1) :]
    name = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
    try:
        files = [path.name for path in islice(checkpoint.parent.iterdir(), _MOST_FILES)]
    except OSError:
        return None
    return min((int(same[1]) for file in files if (same := name.fullmatch(file))), default=None)


NOWHERE = CheckpointPlace()
