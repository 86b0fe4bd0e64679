"""Which processes belong to which run: every process a run starts inherits its mark in the
environment.

Reads /proc; on systems without it, finds nothing.
"""

import os
import time
from collections.abc import Iterator

MARK = "FRESNEL_RUN_ID"
_EXEC_LOOKS, _EXEC_PAUSE_S = 4, 0.0005


def mark_of(pid: int) -> str | None:
    """The run id in the environment of process `pid`, or None when it has none or may not be
    read.
    """
    environment = _read_environment(pid)
    key = MARK.encode() + b"="
    start = 0 if environment.startswith(key) else environment.find(b"\0" + key) + 1
    if start == 0 and not environment.startswith(key):
        return None
    end = environment.find(b"\0", start)
    return environment[start + len(key) : end if end >= 0 else None].decode("utf-8", "replace")


def _read_environment(pid: int) -> bytes:
    """The bytes of /proc/PID/environ; empty when there are none, or they may not be read.

    In the middle of an exec they are empty for an instant: a program (kernel threads have no
    `exe`) is asked again.
    """
    for _ in range(_EXEC_LOOKS):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
            if environment:
                return environment
            os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return b""
        time.sleep(_EXEC_PAUSE_S)
    return b""


def environment_of(pid: int) -> dict[str, str] | None:
    """The environment that `pid` was started with, or None when it may not be read."""
    entries = _read_environment(pid).decode("utf-8", "surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry) or None


def marked_processes(run_id: str) -> list[int]:
    """The pids of this user's live processes (zombies left out) that carry the mark of `run_id`."""
    return [pid for pid in _own_processes() if mark_of(pid) == run_id and not is_zombie(pid)]


def all_marks() -> dict[str, list[int]]:
    """The pids of every live marked process of this user, by run: one look at /proc for many
    runs.
    """
    found: dict[str, list[int]] = {}
    for pid in _own_processes():
        mark = mark_of(pid)
        if mark is not None and not is_zombie(pid):
            found.setdefault(mark, []).append(pid)
    return found


def _own_processes() -> Iterator[int]:
    """The pids of this user's processes; of everybody's for root."""
    user = os.getuid()
    for name in _process_names():
        try:
            if user in (0, os.stat(f"/proc/{name}").st_uid):
                yield int(name)
        except OSError:
            continue


def is_zombie(pid: int) -> bool:
    """True when `pid` has ended and only waits to be reaped, or is gone."""
    return process_state(pid) in ("Z", "X", "")


def process_state(pid: int) -> str:
    """The state letter of `pid` in /proc/PID/stat; empty when there is no such process."""
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot: with the pid it names one process for ever."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else None


def group_of(pid: int) -> int | None:
    """The process group of `pid`, or None when there is no such process."""
    fields = _stat_fields(pid)
    return int(fields[2]) if fields else None


def parent_of(pid: int) -> int | None:
    """The parent of `pid`, or None when there is no such process."""
    fields = _stat_fields(pid)
    return int(fields[1]) if fields else None


def ignores(pid: int, number: int) -> bool:
    """True when `pid` ignores signal `number` (1 to 31), as a shell's background jobs ignore
    SIGINT.
    """
    fields = _stat_fields(pid)
    return bool(fields) and bool(int(fields[30]) >> (number - 1) & 1)


def descendants(pid: int) -> set[int]:
    """The live processes below `pid`, at any depth; those that were handed to another parent are
    not found.
    """
    parents = {int(name): parent_of(int(name)) for name in _process_names()}
    found: set[int] = set()
    below = {pid}
    while below:
        below = {child for child, parent in parents.items() if parent in below} - found
        found |= below
    return {child for child in found if not is_zombie(child)}


def _process_names() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _stat_fields(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
