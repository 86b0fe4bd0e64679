"""The processes of one run, with its mark or without: each by its pid and its start time.

A process loses the mark with its environment (`env -i`, a program that writes its title
over it), and leaves its parents by becoming its own session. It is still found as a
descendant of the waiter or of the supervisor (its subreaper), in the run's own control
group, by having been found before, or because it holds the run's lock or writes to its
output.
"""

import os
from collections.abc import Sequence

from runners.host.procfs import (
    ProcessTable,
    cgroup_of,
    group_of,
    holders_of,
    marks_of,
    members_of,
    parent_of,
    read_processes,
)
from runners.state.layout import RunDirectory

Found = dict[int, int]
"""Pids, and when each process started, in clock ticks since boot."""


class RunProcesses:
    """Finds what belongs to `run`; `followed` was found without a mark by an earlier supervisor."""

    def __init__(
        self, run: RunDirectory, followed: Sequence[tuple[int, int]] = (), cgroup: str = ""
    ) -> None:
        self.run = run
        self.cgroup = cgroup
        self.waiter: int | None = None
        self.reaper: int | None = os.getpid()
        """The run's supervisor, whose children its orphans become."""
        self.unmarked: Found = dict(followed)
        self.since = 0
        """Nothing of the run started before, in clock ticks since boot."""

    def find(self, thorough: bool = False) -> Found:
        """The run's live processes except the waiter; `thorough` finds holders of its files too."""
        return self._find(read_processes(self.since), Marks(self.run.id), thorough)

    def find_last(self) -> Found:
        """What `find` finds; only where that is nothing, the holders of the run's files."""
        marks, seen = Marks(self.run.id), set[str]()
        table = read_processes(self.since, seen)
        if found := self._find(table, marks, thorough=False):
            return found
        # Once more, for what came while the others were looked at.
        return self._find(table | read_processes(self.since, seen), marks, thorough=True)

    def _find(self, table: ProcessTable, marks: "Marks", thorough: bool) -> Found:
        marked = {pid for pid in table if marks.is_own(pid)}
        # The supervisor is a root because it is the subreaper: orphans of
        # the run become its children.
        roots = {*marked, *([self.reaper] if self.reaper else [])}
        if self.waiter is not None:
            roots.add(self.waiter)
        roots |= {pid for pid, entry in table.items() if self.unmarked.get(pid) == entry.ticks}
        roots |= members_of(self.cgroup) & table.keys() if self.cgroup else set()
        if thorough:
            roots |= holders_of(self.run.run_lock, self.run.output, table)
        found = {pid for pid in _below(table, roots, marks) if marks.may_be(pid)}
        found -= {os.getpid(), self.reaper, self.waiter}
        # Kept for the next look: by then the parent through which it was found may be gone.
        self.unmarked = {pid: table[pid].ticks for pid in found - marked}
        return {pid: table[pid].ticks for pid in sorted(found)}

    def targets(self, target: str, leader: int | None) -> Found:
        """The processes a polite signal goes to: the leader, its process group, or its workers.

        Every torchrun rank is its own session, so workers are found by parentage.
        """
        everything = self.find()
        if target == "group" and leader is not None:
            group = group_of(leader) or (group_of(self.waiter) if self.waiter else None)
            chosen = {pid for pid in everything if group_of(pid) == group}
        elif target == "workers" and leader is not None:
            chosen = {pid for pid in everything if parent_of(pid) == leader}
        else:
            chosen = {pid for pid in everything if pid == leader}
        # No process fits, as when the leader has died: then all of them are signalled.
        return {pid: everything[pid] for pid in chosen} or everything


def own_scope(run_id: str) -> str:
    """The control group of the run's own systemd scope; empty when it has none."""
    group = cgroup_of(os.getpid())
    # In the login's own group there are other programs too, which a stop must not reach.
    return group if f"/fresnel-{run_id}" in group else ""


class Marks:
    """Which run each process belongs to by its environment, read at most once."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._known: dict[int, tuple[str | None, bool]] = {}

    def is_own(self, pid: int) -> bool:
        """True with the run's own mark."""
        return self._of(pid) == (self._run_id, False)

    def may_be(self, pid: int) -> bool:
        """False for our helpers, and for processes of another run."""
        mark, helper = self._of(pid)
        return not helper and mark in (None, self._run_id)

    def _of(self, pid: int) -> tuple[str | None, bool]:
        if pid not in self._known:
            self._known[pid] = marks_of(pid)
        return self._known[pid]


def _below(table: ProcessTable, roots: set[int], marks: Marks) -> set[int]:
    """`roots` and what descends from them, but nothing below another run's process or a helper."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found, open_ends = set(roots), list(roots)
    while open_ends:
        for child in children.get(open_ends.pop(), ()):
            if child not in found and marks.may_be(child):
                found.add(child)
                open_ends.append(child)
    return found
