"""The images of a run: PNG and JPEG files that its events name, or where it writes.

A file is a run's own when it is in its folder, when its events name it, or when it was written
while the run lived: into a folder on its command line, into one that its output names, or directly
into its working directory.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from runners.host.below import leads_out
from runners.host.bounded_glob import SearchBudget, entries_of, is_folder_entry
from runners.host.files import is_folder, status_of
from runners.host.mounts import silent_server
from runners.host.printed_paths import PrintedScan
from runners.model.events import Event
from runners.model.late_pattern import late_pattern
from runners.model.run import Run
from runners.watch.metrics.event_reader import EventReader

SUFFIXES = (".png", ".jpg", ".jpeg")
_MOST_ENTRIES = 20_000
_MOST_PICTURES = 5_000
_DEEPEST = 6
_GRAIN_S = 1.0
_AFTERWARDS_S = 60.0
"""Seconds after its end in which a run's last pictures may be written: a cache, another host."""
_EPOCH = late_pattern(r"(?:^|[^a-z])(?:epoch|ep|e)[_\-=. ]?0*(\d{1,9})(?!\d)", re.IGNORECASE)
_STEP = late_pattern(
    r"(?:^|[^a-z])(?:global_?step|step|iteration|iter|it)[_\-=. ]?0*(\d{1,12})(?!\d)", re.IGNORECASE
)
# wandb's media files are NAME_STEP_HASH; https://docs.wandb.ai/guides/track/log/media.
_WANDB = late_pattern(r"_(\d{1,12})_[0-9a-f]{20}$")
_LAST_NUMBER = late_pattern(r"(?:^|[^\d])0*(\d{1,12})$")


PicturePlace = tuple[int, int, int]
NEWEST: PicturePlace = (2, 0, 0)
"""The place of a file that is overwritten repeatedly."""


class RunPicture(msgspec.Struct, frozen=True):
    """An image file.

    `series` is its name without epoch and step, `modified` in unix seconds, `reported` whether the
    program's events name it. Epoch and step are None where nothing says where it belongs.
    """

    path: str
    series: str
    epoch: int | None
    step: int | None
    bytes: int
    modified: float
    caption: str = ""
    reported: bool = False

    @property
    def place(self) -> PicturePlace:
        """Where in the run it belongs, for sorting: by epoch, else step; rewritten ones last."""
        if self.epoch is not None:
            return 0, self.epoch, self.step or 0
        return (1, 0, self.step) if self.step is not None else NEWEST


class PictureFinder:
    """Finds one run's pictures; `poll` again and again follows one that lives."""

    def __init__(self, run: Run) -> None:
        self._events = EventReader(Path(run.directory) / "events.jsonl")
        self._named: dict[str, Event] = {}

    def poll(self, run: Run) -> list[RunPicture]:
        """All that are there now, in the order of the run; at most some thousands."""
        folder = Path(run.plan.working_directory if run.plan else run.directory)
        self._note(folder)
        since = (run.started or run.created) - _GRAIN_S
        until = float("inf") if run.ended is None else run.ended + _AFTERWARDS_S
        found: dict[str, RunPicture] = {}
        roots = Path(run.directory), folder
        for path, event in self._named.items():
            _add(found, path, roots, event)
        for path in _walk(run.directory, _DEEPEST):
            _add(found, path, roots)
        for place, depth in _places(run, folder):
            for path in _walk(place, depth):
                _add(found, path, roots, None, since, until)
        return sorted(
            found.values(), key=lambda picture: (picture.series, *picture.place, picture.path)
        )

    def _note(self, folder: Path) -> None:
        for event in self._events.all_new():
            if event.type == "image" and event.path and "\0" not in event.path:
                path = os.path.normpath(folder / event.path)
                self._named.pop(path, None)
                self._named[path] = event
                if len(self._named) > _MOST_PICTURES:
                    del self._named[next(iter(self._named))]


def find_pictures(run: Run) -> list[RunPicture]:
    """All pictures of a run, by what they show and in its order."""
    return PictureFinder(run).poll(run)


def _add(
    found: dict[str, RunPicture],
    path: str,
    roots: tuple[Path, ...],
    event: Event | None = None,
    since: float = 0.0,
    until: float = float("inf"),
) -> None:
    """Add the file at `path`, if new and of this run; named from the first of `roots` it is in."""
    if path in found or len(found) >= _MOST_PICTURES or not path.lower().endswith(SUFFIXES):
        return
    if silent_server(path):
        return
    # A link in the run's folder may lead to anything: its pictures go into reports.
    if leads_out(path, str(roots[0])):
        return
    stat = status_of(path)
    if stat is None or not since <= stat.st_mtime <= until:
        return
    root = next(
        (folder for folder in roots if folder in Path(path).parents), Path(path).parent.parent
    )
    name = str(Path(path).relative_to(root))
    epoch, step, stem = _read_stem(Path(path).stem)
    if event is not None:
        epoch = event.epoch if event.epoch is not None else epoch
        step = event.step if event.step is not None else step
    parent = str(Path(name).parent)
    series = stem if parent == "." else f"{parent}/{stem}"
    caption = event.caption or "" if event is not None else ""
    found[path] = RunPicture(
        path, series, epoch, step, stat.st_size, stat.st_mtime, caption, event is not None
    )


def _read_stem(stem: str) -> tuple[int | None, int | None, str]:
    """Epoch and step by a file's name (a number at its end is a step), and the rest of it."""
    found = {"epoch": _EPOCH.search(stem), "step": _WANDB.search(stem) or _STEP.search(stem)}
    if not any(found.values()):
        found["step"] = _LAST_NUMBER.search(stem)
    spans = sorted((match.span() for match in found.values() if match), reverse=True)
    rest = stem
    for first, end in spans:
        rest = rest[:first] + rest[end:]
    epoch, step = (int(match[1]) if match else None for match in found.values())
    return epoch, step, rest.strip("_-. ") or ("epochs" if found["epoch"] else "steps")


def _places(run: Run, folder: Path) -> Iterator[tuple[str, int]]:
    """Folders that a run may write pictures into, and how deep to look there."""
    above = {str(folder), *map(str, folder.parents), run.directory}
    arguments = (word.rpartition("=")[2] for word in (run.plan.argv if run.plan else ()))
    printed = PrintedScan(run.directory, str(folder)).poll().folders
    for text in dict.fromkeys([*arguments, *printed]):
        if not text or text.startswith("-") or len(text) > os.pathconf("/", "PC_PATH_MAX"):
            continue
        place = os.path.normpath(folder / text)
        if place not in above and "\0" not in place and is_folder(place):
            yield place, _DEEPEST
    yield str(folder), 0


def _walk(top: str, depth: int) -> Iterator[str]:
    """The picture files below a folder, down to `depth`, without links and hidden files."""
    budget = SearchBudget(_MOST_ENTRIES)
    return islice(_files(top, depth, budget) if budget.may_enter(top) else (), _MOST_PICTURES)


def _files(top: str, depth: int, budget: SearchBudget) -> Iterator[str]:
    folders: list[str] = []
    for entry in entries_of(top, budget):
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if is_folder_entry(entry, budget):
            folders.append(entry.path)
        elif entry.name.lower().endswith(SUFFIXES) and entry.is_file(follow_symlinks=False):
            yield entry.path
    if depth:
        for folder in folders:
            yield from _files(folder, depth - 1, budget)
