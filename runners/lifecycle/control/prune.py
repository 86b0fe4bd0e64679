"""Removing the directories of ended runs; never a live one's, and never half of one.

A directory is renamed to a hidden name under the allocation lock, and deleted after it: whoever
lists runs sees it whole or not at all, and what a crash leaves is finished by the next call.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from runners.cost.ledger import append_missing
from runners.host.identity import host_name
from runners.host.locks import locked
from runners.lifecycle.control.fetched import remember_unfetched
from runners.lifecycle.control.trash import reasons_to_stay
from runners.lifecycle.launch.preconditions import refuse_untrusted
from runners.lifecycle.launch.sampled_runs import forget_searches
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import home_of
from runners.state.runs import list_run_ids, read_run

_HIDDEN = ".pruned-"


class Criteria(msgspec.Struct, frozen=True):
    """Which ended runs go: those older than so many seconds, that ended in these states.

    All but the newest `keep` of them.
    """

    older_than_s: float | None = None
    keep: int | None = None
    states: frozenset[State] = frozenset()


class PrunedRun(msgspec.Struct, frozen=True):
    """A run removed, or to be removed: how it ended, when (unix seconds), and its bytes on disk."""

    run: str
    state: State
    ended: float
    bytes: int


class Pruned(msgspec.Struct):
    """What `prune` did: removed, left alone and why.

    `leftover_bytes` is what an interrupted call had left to free; `unfetched` are runs that nobody
    has fetched: they hold an end that destroys.
    """

    removed: list[PrunedRun] = []
    left: dict[str, str] = {}
    failed: dict[str, str] = {}
    leftover_bytes: int = 0
    unfetched: list[str] = []

    @property
    def bytes(self) -> int:
        """Everything that was freed."""
        return self.leftover_bytes + sum(run.bytes for run in self.removed)


def prune(state: StateDirectory, criteria: Criteria, dry_run: bool = False) -> Pruned:
    """Remove every ended run of this host that meets all `criteria`.

    One that must stay is named, with the reason. Raises DeniedError when others
    may write the state folder.
    """
    refuse_untrusted(state.create())
    pruned = Pruned()
    if not dry_run:
        _finish_interrupted(state, pruned)
    runs = [read_run(state, run_id) for run_id in list_run_ids(state)]
    own = [run for run in runs if home_of(run) == host_name()]
    other_hosts = [run for run in runs if home_of(run) != host_name()]
    chosen = [run for group in (other_hosts, own) for run in choose(group, criteria, time.time())]
    if not chosen:
        return pruned
    if not dry_run:
        # Their cost first: a run whose line cannot be written keeps its directory, which has it.
        pruned.left |= (unentered := append_missing(state, chosen))
        chosen = [run for run in chosen if run.id not in unentered]
    with locked(state.allocation_lock):
        reason_to_stay = reasons_to_stay(state)
        taken = [
            pair
            for run in chosen
            if (pair := _take(state, run, reason_to_stay, pruned, dry_run)) is not None
        ]
    # After the lock is released: deleting gigabytes would keep every launch waiting.
    for run, place in taken:
        freed = _size(place)
        if not dry_run:
            _delete(place, run.id, pruned)
        if run.id not in pruned.failed:
            pruned.removed.append(PrunedRun(run.id, run.state, ended_at(run), freed))
    if not dry_run:
        forget_searches(state)
    return pruned


def choose(runs: Iterable[Run], criteria: Criteria, now: float) -> list[Run]:
    """The ended runs among `runs` (oldest first) that meet all criteria, oldest first."""
    fitting = [
        run
        for run in runs
        if not run.is_live and (not criteria.states or run.state in criteria.states)
    ]
    if criteria.keep is not None:
        # The newest stay whatever their age, so they are left out before ages are compared.
        fitting = fitting[: max(0, len(fitting) - criteria.keep)]
    if criteria.older_than_s is not None:
        fitting = [run for run in fitting if now - ended_at(run) > criteria.older_than_s]
    return fitting


def ended_at(run: Run) -> float:
    """When a run ended, or was last heard of; unix seconds."""
    return run.ended if run.ended is not None else run.created


def _take(
    state: StateDirectory,
    run: Run,
    reason_to_stay: Callable[[Run], str],
    pruned: Pruned,
    dry_run: bool,
) -> tuple[Run, Path] | None:
    """Move a run out of sight, in one rename; None when it stays."""
    reason = reason_to_stay(run) or ("is starred" if run.labels.starred else "")
    if reason:
        pruned.left[run.id] = reason
        return None
    place = state.run(run.id).path
    if dry_run:
        return run, place
    hidden = state.runs / f"{_HIDDEN}{run.id}"
    try:
        if remember_unfetched(state, run):
            pruned.unfetched.append(run.id)
        place.rename(hidden)
    except OSError as error:
        pruned.failed[run.id] = error.strerror or str(error)
        return None
    return run, hidden


def _finish_interrupted(state: StateDirectory, pruned: Pruned) -> None:
    # Of a call that was killed: its runs are already out of every list.
    for place in state.runs.glob(f"{_HIDDEN}*"):
        size = _size(place)
        if _delete(place, place.name.removeprefix(_HIDDEN), pruned):
            pruned.leftover_bytes += size


def _delete(place: Path, run_id: str, pruned: Pruned) -> bool:
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        pass  # another prune was quicker
    except OSError as error:
        pruned.failed[run_id] = f"{error.filename}: {error.strerror}"
        return False
    return True


def _size(place: Path) -> int:
    """Bytes on disk; holes do not count."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                # By blocks: an output cut by its limit has a hole that takes no space.
                total += (Path(folder) / name).lstat().st_blocks * 512
            except OSError:
                continue
    return total
