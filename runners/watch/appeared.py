"""Checkpoints and metric files of which a program prints nothing, as they appear where it works.

Lightning's CSV log and checkpoints, the Trainer's `checkpoint-500`, `model.save` of
stable-baselines3 and most `torch.save` are silent. What appears in a run's working directory is its
own while no other run works there.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path, PurePath

from runners.host.bounded_glob import SearchBudget, entries_of, is_folder_entry
from runners.host.files import home_folder, modified_at
from runners.host.mounts import real_path
from runners.host.printed_paths import is_policy
from runners.model.run import Run
from runners.state.layout import RunDirectory
from runners.state.runs import list_run_ids, read_run

_LEVELS = 7
"""As deep as Lightning under Hydra: `logs/train/runs/DATE/csv/version_0/metrics.csv`."""
_MOST_NAMES, _MOST_IN_ONE = 10_000, 1_000
"""Of all folders, and of one: a folder of data is not searched for long."""
_MOST_RUNS = 3000
"""With more, whether a short run worked alone is not looked up."""
_TIMES_ITS_COST = 500.0
_GRAIN_S = 1.0
"""Some file systems keep whole seconds."""
_YOUNG_S = 120.0
"""Of a run that is older when it is first looked at, nobody saw who worked beside it."""
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "venv", "wandb"}
_ALWAYS, _BY_NAME = (".ckpt", ".keras"), (".pt", ".pth", ".safetensors")
_WEIGHTS = ("model", "checkpoint", "ckpt", "weight", "net", "best", "last", "latest", "final",
            "epoch", "step", "iter", "state", "snapshot", "policy")  # fmt: skip
"""Of these endings, which are data's as well, what is called so is a network."""
_TRAINER, _TABLE = "checkpoint-", "metrics.csv"


def alone_in(runs: Iterable[Run]) -> Collection[str]:
    """The runs, by id, in whose working directory, or above or below it, no other of them works."""
    places = {
        run.id: real_path(run.plan.working_directory)
        for run in runs
        if run.plan is not None and run.plan.working_directory
    }
    times = Counter(places.values())
    above = {str(parent) for place in times for parent in PurePath(place).parents}
    return {
        run_id
        for run_id, place in places.items()
        if times[place] == 1
        and place not in above
        and not any(str(parent) in times for parent in PurePath(place).parents)
    }


def beside_short_run(run: Run, until: float) -> list[str]:
    """What appeared `until` a moment (unix s) where a run worked that ended before it was watched.

    Nothing where another may have worked there meanwhile.
    """
    directory = RunDirectory.at(Path(run.directory))
    began, home = run.started, directory.home
    if began is None or run.ended is None or directory.health.exists():
        return []
    names = list_run_ids(home)
    if len(names) > _MOST_RUNS:
        return []
    beside = [
        name
        for name in names
        if home.live_marker(name).exists() or modified_at(home.run(name).state) >= began - _GRAIN_S
    ]
    if run.id not in alone_in([run, *(read_run(home, name) for name in {*beside} - {run.id})]):
        return []
    return Appearing(run).poll(True, run.ended, last=True, until=until)


class Appearing:
    """What appears, from one look to the next, where one run works alone."""

    def __init__(self, run: Run) -> None:
        """Nothing is looked for where the preset says where, or goes on from it by itself."""
        spec = run.plan.spec if run.plan else None
        known = spec is None or bool(spec.checkpoints) or spec.restart.times > 0
        self._folder = "" if known or run.plan is None else run.plan.working_directory
        self._levels = _levels(self._folder)
        self._began = run.started or run.created
        self._since = math.nan
        self._next = -math.inf

    def poll(
        self, alone: bool, now: float, last: bool = False, until: float = math.inf
    ) -> list[str]:
        """Files and folders written since the last look (unix s), if it was `alone` all along.

        A search that takes its time is made more rarely, but for the `last`.
        """
        if alone and not last and now < self._next:
            return []
        since, self._since = self._since, now if alone else math.inf
        if math.isnan(since):
            since = self._began if now - self._began < _YOUNG_S else math.inf
        if not (alone and self._levels and since <= now):
            return []
        before, budget = time.thread_time(), SearchBudget(_MOST_NAMES)
        found = _written(self._folder, self._levels, since - _GRAIN_S, until, budget)
        if budget.cut:
            self._since = since  # what was not seen for want of time is looked for again
        self._next = now + _TIMES_ITS_COST * (time.thread_time() - before)
        return found


def _levels(folder: str) -> int:
    """How deep to look: what lies below a home is other people's work, or other programs'."""
    place = real_path(folder) if folder else "/"
    if place in ("/", "/tmp"):
        return 0
    return 1 if place == os.path.realpath(home_folder()) else _LEVELS


def _written(top: str, levels: int, since: float, until: float, budget: SearchBudget) -> list[str]:
    found, folders = dict[str, None](), [top] if budget.may_enter(top) else []
    for _ in range(levels):
        below: list[str] = []
        for folder in folders:
            for entry in islice(entries_of(folder, budget), _MOST_IN_ONE):
                if entry.name.startswith(".") or entry.name in _LEFT_OUT:
                    continue
                is_checkpoint = _is_checkpoint(entry.name, Path(folder).name)
                if is_folder_entry(entry, budget) and not is_checkpoint:
                    below += [] if entry.is_symlink() else [entry.path]
                elif not since <= modified_at(entry.path) <= until:
                    continue
                elif is_checkpoint or entry.name == _TABLE:
                    # Of a folder with checkpoints, the later ones are its own too.
                    whole = is_checkpoint and folder != top
                    found[folder if whole else entry.path] = None
                elif is_policy(entry.path):
                    found[entry.path] = None
        folders = below
    return list(found)


def _is_checkpoint(name: str, folder: str) -> bool:
    if name.startswith(_TRAINER):
        return name[len(_TRAINER) :].isdigit()
    text = f"{folder}/{name}".lower()
    return name.endswith(_ALWAYS) or (
        name.endswith(_BY_NAME) and any(word in text for word in _WEIGHTS)
    )
