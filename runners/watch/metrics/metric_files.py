"""The files of a run that training libraries write metrics to, and how they are found.

A file is a run's own when it is in its folder, when its preset names it, when the program says
where it writes, when one of its processes has it open, or when its name has the program's pid.
"""

import glob
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.host.bounded_glob import SearchBudget, entries_of, is_folder_entry
from runners.host.files import is_folder, modified_at, names_in, read_plain
from runners.host.mounts import silent_server
from runners.model.run import Run
from runners.watch.metrics.file_source import FileSource
from runners.watch.metrics.log_files import LogFileSource
from runners.watch.metrics.series_set import SeriesSet
from runners.watch.metrics.tensorboard import BoardSource
from runners.watch.metrics.wandb_files import SUFFIX as WANDB
from runners.watch.metrics.wandb_files import WandbSource, patterns_in

_SEARCH_EVERY_S = 5.0
_DEEPEST = 4
_MOST_ENTRIES = 20_000
_LOGS = re.compile(r"tfevents|metrics\.csv$|trainer_state\.json$|\.wandb$")


class RunFiles:
    """TensorBoard and other metric files of one run; `poll` looks for them and reads on."""

    def __init__(self, run: Run) -> None:
        own = glob.escape(run.directory)
        since = run.started or run.created
        named = list(run.plan.tensorboard) if run.plan else []
        self._boards = [BoardSource([own], 0.0), BoardSource(named, since, Path(run.directory))]
        self._tables = [LogFileSource([own], 0.0), LogFileSource([], since, Path(run.directory))]
        self._wandb = WandbSource(patterns_in(run.directory), since - 1.0)
        # Scalars with steps first.
        self._sources: tuple[FileSource[Any], ...] = (*self._boards, self._wandb, *self._tables)
        self._searched_at = 0.0
        self._walked = False

    @property
    def problems(self) -> list[str]:
        """Files that could not be read on."""
        return [problem for source in self._sources for problem in source.problems]

    def poll(self, run: Run, printed: tuple[str, ...] = ()) -> None:
        """Read what is new, and look for new files now and then; `printed` are paths it named."""
        now = time.monotonic()
        if not self._searched_at or now - self._searched_at >= _SEARCH_EVERY_S:
            self._searched_at = now
            self._search(run, printed)
        for source in self._sources:
            source.poll()

    def _search(self, run: Run, printed: tuple[str, ...]) -> None:
        own = [path for path in printed if _is_own_log(path, run)]
        patterns = [glob.escape(path) for path in own]
        found = {*self._boards[1].patterns, *patterns}
        if run.plan is not None and run.record is not None and run.record.leader_pid:
            pid = run.record.leader_pid
            if run.is_live:
                opened = _open_logs(pid)
            else:
                # Once: its files are closed, and no new ones come.
                opened = set() if self._walked else _boards_of(pid, run.plan.working_directory)
                self._walked = True
            found.update(glob.escape(path) for path in opened)
            own += [path for path in opened if path.endswith(WANDB)]
        self._boards[1].patterns = sorted(found)
        self._tables[1].patterns = sorted({*self._tables[1].patterns, *patterns})
        places = [place for path in own for place in (glob.escape(path), *patterns_in(path))]
        self._wandb.patterns = sorted({*self._wandb.patterns, *places})

    @property
    def collections(self) -> tuple[SeriesSet, ...]:
        """What was read, by how much each kind of file says."""
        return tuple(source.collection for source in self._sources)


def _is_own_log(path: str, run: Run) -> bool:
    """Whether a printed path is a folder made, or a log changed, since the run began."""
    # File systems that keep whole seconds make a file look older than the run's start.
    begun = (run.started or run.created) - 1.0
    is_own = not silent_server(path) and modified_at(path) >= begun
    return is_own and (is_folder(path) or _LOGS.search(path) is not None)


def _boards_of(leader: int, top: str) -> set[str]:
    """TensorBoard files below `top` named by the pid, level by level, among 20,000 entries."""
    found, budget = set[str](), SearchBudget(_MOST_ENTRIES)
    folders = [top] if budget.may_enter(top) else []
    for _ in range(_DEEPEST):
        below: list[str] = []
        for folder in folders:
            for entry in entries_of(folder, budget):
                if is_folder_entry(entry, budget):
                    below += [] if entry.is_symlink() else [entry.path]
                elif "tfevents" in entry.name and f".{leader}." in entry.name:
                    found.add(entry.path)
            if budget.cut:
                return found
        folders = below
    return found


def _open_logs(leader: int) -> set[str]:
    """Log files that the program, or a process it started, has open."""
    found: set[str] = set()
    pids, at = [leader], 0
    # A program with many workers: its first processes hold the logs.
    while at < len(pids) and at < 64:
        folder = f"/proc/{pids[at]}"
        at += 1
        # As text: paths would be made of it for each live run, every few seconds.
        for task in names_in(f"{folder}/task"):
            with suppress(OSError):  # ended meanwhile
                children = read_plain(f"{folder}/task/{task}/children").split()
                pids += map(int, children)
        for number in names_in(f"{folder}/fd"):
            with suppress(OSError):  # closed meanwhile
                target = os.readlink(f"{folder}/fd/{number}")  # noqa: PTH115
                if _LOGS.search(target):
                    found.add(target)
    return found
