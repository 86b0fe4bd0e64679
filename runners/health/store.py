"""How a live run does now: what its watcher found, else a judgement by what can be read at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runners.host.identity import host_name
from runners.model.health import Health
from runners.model.run import Run
from runners.model.states import State
from runners.state.decoding import read
from runners.state.layout import RunDirectory

if TYPE_CHECKING:
    from runners.watch.metrics.live import LiveReport

FRESH_S = 60.0
"""Older ones are not valid any more: the watcher looks every ten seconds."""


def read_health(run: Path) -> Health | None:
    """What the watcher found last of the run in this folder, however old, or None."""
    return read(f"{run}/health.json", Health)


def health_of(run: Run, now: float, report: LiveReport | None) -> Health | None:
    """How a run does at `now` (unix s), by its watcher or `report`; None if it does not run."""
    if run.state is not State.RUNNING:
        return None
    attempt = run.record.attempt if run.record else 1
    found = read_health(Path(run.directory))
    if found is not None and found.attempt == attempt and abs(now - found.time) <= FRESH_S:
        return found
    return None if report is None else _judged_once(run, attempt, now, report)


def _judged_once(run: Run, attempt: int, now: float, report: LiveReport) -> Health:
    """By the watcher's own judge; what has to hold for a while is not said after one look."""
    # Most commands show runs that ended, or that a watcher judges: they do without the judge.
    from runners.health.episodes import EpisodeTracker
    from runners.health.judge import judge
    from runners.health.observer import RunObserver

    directory = RunDirectory.at(run.directory)
    ours = run.record is not None and run.record.host == host_name()
    leader = directory.leader_pid() if ours else None
    observer = RunObserver(run, directory, report)
    # Without the search through all processes, which is too slow for a list of runs.
    signs = observer.observe(run, now, () if leader is None else (leader,))
    return EpisodeTracker().take(judge(signs), now, attempt).health
