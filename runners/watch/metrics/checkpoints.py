"""The newest checkpoint seen on disk and whole: one answer for every command and the panel."""

import glob
import time
from collections.abc import Collection
from pathlib import Path

from runners.host.bounded_glob import SearchBudget
from runners.host.newest_file import NewestFile, first_whole, is_in, run_files
from runners.host.printed_paths import PrintedPaths, PrintedScan
from runners.model.plan import LaunchPlan, is_job
from runners.model.run import Checkpoint, Run
from runners.watch.metrics.final import FinalReport, read_final

_QUIET_S = 2.0
"""Seconds without a write, for a checkpoint whose format has no end mark."""
_LOOK_EVERY_S = 5.0
_GRAIN_S = 1.0
_SEEN_LATE_S = 60.0
"""So late may a machine see what another wrote to a disk that they share."""
_TIMES_ITS_COST = 20.0
"""A search through many names is made so much more rarely than it takes."""


class CheckpointLook:
    """The newest checkpoint of a run that is looked at every second: searched for now and then."""

    def __init__(self) -> None:
        self.cut = ""
        """What the newest search left out, in words; empty when nothing was."""
        self._found: Checkpoint | None = None
        self._next = 0.0

    def newest(
        self, run: Run, scan: PrintedScan | None = None, final: FinalReport | None = None
    ) -> Checkpoint | None:
        """As `run_checkpoint`: of a live run as it was some seconds ago, of an ended one now."""
        now = time.monotonic()
        if run.is_live and now < self._next:
            return self._found
        budget = SearchBudget()
        self._found = run_checkpoint(run, scan, final, budget=budget)
        self.cut = budget.cut
        done = time.monotonic()
        self._next = done + max(_LOOK_EVERY_S, _TIMES_ITS_COST * (done - now))
        return self._found


def run_checkpoint(
    run: Run,
    scan: PrintedScan | None = None,
    final: FinalReport | None = None,
    besides: Collection[str] = (),
    budget: SearchBudget | None = None,
) -> Checkpoint | None:
    """A run's newest whole checkpoint, not in `besides`; `scan` and `final` if read already."""
    found_files = checkpoint_files(run, scan, final, budget)
    files = [file for file in found_files if file.path not in besides]
    found = first_whole(files, _QUIET_S if run.is_live else 0.0)
    return None if found is None else Checkpoint(*found)


def checkpoint_files(
    run: Run,
    scan: PrintedScan | None = None,
    final: FinalReport | None = None,
    budget: SearchBudget | None = None,
) -> list[NewestFile]:
    """The files and folders among which a run's checkpoint is looked for, the newest first."""
    if run.plan is None:
        return []
    final = final or read_final(run)
    printed = _printed(run, run.plan.working_directory, scan, final)
    started = run.started or run.created
    patterns, others = run.plan.checkpoints, _trainer_folders(run.plan)
    files = run_files(run.directory, patterns, printed, started, budget, others)
    if final is None or final.saved is None:
        return files
    # What came later, in a folder that several runs write to, is another run's.
    until = own_until(run, final.saved)
    return [file for file in files if file.modified <= until or is_in(file.path, run.directory)]


def own_until(run: Run, moment: float) -> float:
    """Until when (unix s) a file may seem written that a run wrote until `moment`."""
    return moment + (_SEEN_LATE_S if is_job(run.plan) else _GRAIN_S)


def _trainer_folders(plan: LaunchPlan) -> list[str]:
    """Where the Hugging Face Trainer writes `checkpoint-160`, of which it prints nothing."""
    found = []
    for word, after in zip(plan.argv, (*plan.argv[1:], ""), strict=True):
        name, _, given = word.partition("=")
        folder = given or after
        if name in ("--output_dir", "--output-dir") and folder:
            found.append(glob.escape(str(Path(plan.working_directory, folder))) + "/checkpoint-*")
    return found


def _printed(
    run: Run, folder: str, scan: PrintedScan | None, final: FinalReport | None
) -> PrintedPaths:
    if final is None:
        return (scan or PrintedScan(run.directory, folder)).poll(run.is_live)
    # Noted when the run ended, so that a list of hundreds reads no outputs.
    printed = PrintedPaths(folder)
    for path in final.checkpoints:
        printed.add(path)
    return printed
