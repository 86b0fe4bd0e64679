"""The processes of a run that train, by rank, and what each is doing: state, wait channel, CPU.

Reads /proc alone. A rank is what its launcher's environment says (torchrun, accelerate, MPI,
Slurm); a program without one is its single process.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from runners.host.files import read_text
from runners.host.procfs import (
    command_of,
    environment_of,
    marked_processes,
    parent_of,
    start_ticks,
    stat_fields,
)
from runners.host.shells import SHELLS
from runners.model.python_command import processes_started
from runners.model.run import Run
from runners.model.wrappers import CONTAINERS, STARTERS
from runners.state.layout import RunDirectory

_RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_HELPERS = ("resource_tracker", "compile_worker", "semaphore_tracker", "forkserver")
_WRAPPERS = STARTERS | {*SHELLS, *CONTAINERS}
_TICKS = os.sysconf("SC_CLK_TCK")
_WAITS = (
    ("futex", "waits for a lock or another thread"),
    ("nanosleep", "sleeps"),
    ("poll", "waits for a socket or a pipe"),
    ("select", "waits for a socket or a pipe"),
    ("pipe_", "waits for a pipe"),
    ("sk_wait", "waits for the network"),
    ("inet_", "waits for the network"),
    ("tcp_", "waits for the network"),
    ("unix_stream", "waits for a socket"),
    ("rpc_", "waits for a file server"),
    ("nfs", "waits for a file server"),
    ("io_schedule", "waits for the disk"),
    ("folio_wait", "waits for the disk"),
    ("wait_on_page", "waits for the disk"),
    ("do_wait", "waits for a process below it"),
    ("ptrace", "is held by a debugger"),
)
"""Beginnings or parts of the kernel's names for where a process sleeps, in words."""


class DeclaredRank(NamedTuple):
    """A rank, and the place of the variable that declares it among those that may."""

    place: int
    rank: int


class RankProcess(msgspec.Struct, frozen=True):
    """One process that trains; `rank` is None for a program without ranks.

    `loaders` are the processes below it that look like data loaders.
    """

    pid: int
    ticks: int
    rank: int | None = None
    loaders: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """`rank 3`, or `the program`."""
        return "the program" if self.rank is None else f"rank {self.rank}"


class ProcessState(msgspec.Struct, frozen=True):
    """What a process is doing now: its state letter, its threads, and seconds of CPU so far.

    `channel` is the kernel's name for where it sleeps; empty when it runs, or where that is hidden.
    """

    letter: str
    channel: str
    threads: int
    cpu_s: float

    @property
    def is_paused(self) -> bool:
        """True while a signal or a debugger holds it."""
        return self.letter in ("T", "t")

    @property
    def text(self) -> str:
        """`waits for a lock or another thread (futex_wait_queue)`."""
        if self.letter == "R":
            return "runs"
        if self.is_paused:
            return "is stopped by a signal or a debugger"
        text = next((text for part, text in _WAITS if part in self.channel), "waits")
        if self.letter == "D":
            text = f"{text}, which nothing can interrupt"
        return f"{text} ({self.channel})" if self.channel else text


class RankFinder:
    """Finds the ranks of one run again and again; what a process is, is asked once."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.everything: dict[int, int] = {}
        """All live processes of the run at the last look: pids, and when each started."""
        self._known: dict[tuple[int, int], DeclaredRank | None] = {}

    def find(self, marked: Iterable[int] | None = None) -> tuple[RankProcess, ...]:
        """The live processes that train, by rank; `marked` are the pids with its mark, if known."""
        pids = marked_processes(self._run.id) if marked is None else marked
        ticks = {pid: began for pid in pids if (began := start_ticks(pid)) is not None}
        self.everything = ticks
        known, self._known = self._known, {}
        for key in ticks.items():
            self._known[key] = known[key] if key in known else rank_of(environment_of(key[0]) or {})
        ranks = foremost_ranks({pid: rank for (pid, _), rank in self._known.items()})
        parents = {pid: parent_of(pid) for pid in ticks}
        ranked = {pid: rank for pid, rank in ranks.items() if rank is not None}
        tops = [pid for pid, rank in ranked.items() if ranked.get(parents[pid] or 0) != rank]
        if not tops:
            program = _program(self._run.leader_pid(), parents)
            tops = [pid for pid in ticks if pid == program]
        found = [
            RankProcess(pid, ticks[pid], ranks[pid], _loaders(pid, parents)) for pid in sorted(tops)
        ]
        return tuple(sorted(found, key=lambda process: (process.rank is None, process.rank or 0)))


def processes_of(run: Run) -> int | None:
    """How many processes of `run` compute on this machine; None where that is not known.

    Of one that lives its ranks are counted; else it is what its launcher or its command starts.
    """
    ranks = RankFinder(RunDirectory.at(run.directory)).find() if run.is_live else ()
    counted = sum(process.rank is not None for process in ranks)
    return counted or (processes_started(run.plan) if run.plan is not None else None)


def rank_of(environment: Mapping[str, str]) -> DeclaredRank | None:
    """The rank in a process's environment; None when it has none."""
    for place, name in enumerate(_RANK_NAMES):
        value = environment.get(name, "")
        if value.isdecimal():
            return DeclaredRank(place, int(value))
    return None


def foremost_ranks(declared: Mapping[int, DeclaredRank | None]) -> dict[int, int | None]:
    """The rank of each process by the foremost variable that any of them has.

    In a Slurm job torchrun's launcher has Slurm's rank, and is none of its own ranks.
    """
    best = min((rank.place for rank in declared.values() if rank is not None), default=0)
    return {
        pid: rank.rank if rank is not None and rank.place == best else None
        for pid, rank in declared.items()
    }


def state_of(pid: int) -> ProcessState | None:
    """What process `pid` is doing; None when it has ended."""
    fields = live_fields(pid)
    if not fields:
        return None
    channel = wait_channel(f"/proc/{pid}")
    return ProcessState(fields[0], channel, int(fields[17]), _cpu_seconds(fields))


def cpu_seconds(pid: int) -> float | None:
    """Seconds of CPU that process `pid` has used; None when it has ended."""
    fields = live_fields(pid)
    return _cpu_seconds(fields) if fields else None


def _cpu_seconds(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / _TICKS


def live_fields(pid: int) -> list[str]:
    """What follows the name in /proc/PID/stat; nothing for a process that has ended."""
    fields = stat_fields(pid)
    return fields if fields and fields[0] not in ("Z", "X") else []


def wait_channel(folder: str) -> str:
    """Where the process or thread of this /proc folder sleeps, by the kernel's name for it."""
    found = read_text(f"{folder}/wchan").strip()
    return "" if found == "0" else found


def _loaders(pid: int, parents: Mapping[int, int | None]) -> tuple[int, ...]:
    """The children of `pid` that were forked from it, or spawned as multiprocessing does."""
    command = command_of(pid)
    found = []
    for child in (child for child, parent in parents.items() if parent == pid):
        argv = command_of(child)
        joined = " ".join(argv)
        if any(name in joined for name in _HELPERS):
            continue
        if argv == command or "multiprocessing" in joined or joined.startswith("pt_data"):
            found.append(child)
    return tuple(sorted(found))


def _program(leader: int | None, parents: Mapping[int, int | None]) -> int | None:
    """The program itself, below the shells and wrappers that it was started through."""
    pid = leader
    while pid is not None:
        argv = command_of(pid)
        name = Path(argv[0]).name.lstrip("-") if argv else ""
        below = [child for child, parent in parents.items() if parent == pid]
        wraps = name in _WRAPPERS or any(word.endswith("/pty.py") for word in argv[:4])
        if not wraps or len(below) != 1:
            return pid
        pid = below[0]
    return None
