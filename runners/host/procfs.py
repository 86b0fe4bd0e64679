"""Which processes belong to which run, by the mark that all inherit, read from /proc."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from runners.host.files import identity_of, names_in, read_text, status_of

MARK = "FRESNEL_RUN_ID"
HELPER_MARK = "FRESNEL_HELPER"
"""In the environment of a helper process of ours, and of all below it: never part of a run."""
_WRITES = os.O_WRONLY | os.O_RDWR
_KERNEL_THREAD = 0x200000
"""Among the flags in /proc/PID/stat; a machine has a dozen of them for each of its cores."""
_BLOCK = 1 << 16
_HOSTS_PIDS = "pid:[4026531836]"
"""The kernel gives a machine's first pid namespace this number everywhere."""
_EXEC_TRIES, _EXEC_PAUSE_S = 4, 0.0005


class ProcessEntry(NamedTuple):
    """A live process: its parent, and when it started, in clock ticks since boot."""

    parent: int
    ticks: int


ProcessTable = dict[int, ProcessEntry]


def has_hosts_pids(proc: str | os.PathLike[str] = "/proc") -> bool:
    """True where pids are the machine's own: not in a container with a pid namespace of its own."""
    try:
        return os.readlink(os.path.join(proc, "self/ns/pid")) == _HOSTS_PIDS
    except OSError:
        return True


def is_mounted() -> bool:
    """False where there is no /proc: then nothing can be known of any process."""
    return os.path.exists("/proc/self/stat")


def read_processes(since: int = 0, seen: set[str] | None = None) -> ProcessTable:
    """The live processes of this machine that can be seen and are no older than `since`.

    It is in clock ticks since boot. Zombies and the kernel's own threads are left out. Those in
    `seen` are passed over, and all that there are become part of it.
    """
    table: ProcessTable = {}
    names = set(_process_names())
    for name in names if seen is None else names - seen:
        fields = stat_fields(int(name))
        # Zombies hold no lock, memory or GPU, and cannot be ended any further.
        if not fields or fields[0] in ("Z", "X") or int(fields[19]) < since:
            continue
        if not int(fields[6]) & _KERNEL_THREAD:
            table[int(name)] = ProcessEntry(int(fields[1]), int(fields[19]))
    if seen is not None:
        seen |= names
    return table


def mark_of(pid: int) -> str | None:
    """The run id in the environment of process `pid`; None when it has none, or is not ours."""
    return _value(_read_environment(pid), MARK)


def marks_of(pid: int) -> tuple[str | None, bool]:
    """The run id in the environment of process `pid`, or None; and whether it is a helper's."""
    environment = _read_environment(pid)
    return _value(environment, MARK), _value(environment, HELPER_MARK) is not None


def _value(environment: bytes, name: str) -> str | None:
    key = name.encode() + b"="
    start = 0 if environment.startswith(key) else environment.find(b"\0" + key) + 1
    if start == 0 and not environment.startswith(key):
        return None
    end = environment.find(b"\0", start)
    return environment[start + len(key) : end if end >= 0 else None].decode("utf-8", "replace")


def holders_of(lock: Path, output: Path, among: Iterable[int] | None = None) -> set[int]:
    """Own pids with `lock`, or `output` for writing, in a descriptor that outlasts an exec.

    Only of those in `among` where it is given.
    """
    # By device and inode: the path that /proc shows changes when the file is renamed or deleted.
    files = {identity: path is output for path in (lock, output) if (identity := identity_of(path))}
    found = set()
    for pid in _own_processes() if among is None else among:
        folder = f"/proc/{pid}/fd"
        for name in names_in(folder):
            identity = identity_of(f"{folder}/{name}")
            must_write = None if identity is None else files.get(identity)
            if must_write is not None and _inherits(pid, name, must_write):
                found.add(pid)
                break
    return found


def _inherits(pid: int, descriptor: str, must_write: bool) -> bool:
    """True when a descriptor survives an exec, and can write: a `tail -f` is not part of a run."""
    try:
        with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as file:
            line = next((line for line in file if line.startswith("flags:")), "flags: 0")
    except OSError:
        return False
    flags = int(line.split()[1], 8)
    return not flags & os.O_CLOEXEC and (bool(flags & _WRITES) or not must_write)


def cgroup_of(pid: int) -> str:
    """The control group (version 2) of `pid`, as a path below the tree's root; empty when none."""
    return next((path for controllers, path in groups_of(pid) if not controllers), "")


def groups_of(pid: int | str, root: str | os.PathLike[str] = "/") -> list[tuple[str, str]]:
    """The control groups of `pid`: controllers, which version 2 leaves empty, and path."""
    lines = read_text(os.path.join(root, f"proc/{pid}/cgroup")).splitlines()
    parts = [line.split(":", 2) for line in lines]
    return [(part[1], part[2]) for part in parts if len(part) == 3]


def members_of(group: str, root: str = "/sys/fs/cgroup") -> set[int]:
    """The pids in the control group `group` and those below it; empty when there is none."""
    found: set[int] = set()
    for folder, _, names in os.walk(root + group):
        if "cgroup.procs" in names:
            pids = read_text(f"{folder}/cgroup.procs").split()
            found.update(map(int, filter(str.isdigit, pids)))
    return found


def memory_kills(group: str) -> int | None:
    """Processes of a control group that the kernel killed for want of memory; None: not known."""
    return counted_kills(f"/sys/fs/cgroup/{group.lstrip('/')}/memory.events") if group else None


def counted_kills(path: str) -> int | None:
    """The field `oom_kill` of a control group's file (either version has one); None: not known."""
    lines = (line.partition(" ") for line in read_text(path).splitlines())
    counts = (count for name, _, count in lines if name == "oom_kill" and count.isdigit())
    return next(map(int, counts), None)


def _read_environment(pid: int) -> bytes:
    """The bytes of /proc/PID/environ; empty when there are none, or they may not be read.

    They are also empty for an instant during an exec, so a program is asked again; kernel threads,
    which have no `exe`, are not.
    """
    for _ in range(_EXEC_TRIES):
        try:
            environment = _read(f"/proc/{pid}/environ")
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
    """The pids of every live marked process of this user, by run, in one pass over /proc."""
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
            # Only these can be read, and only these can belong to a run of this user.
            if user == 0 or os.stat(f"/proc/{name}").st_uid == user:
                yield int(name)
        except OSError:
            continue


def is_zombie(pid: int) -> bool:
    """True when `pid` has ended and only waits to be reaped, or is gone."""
    return process_state(pid) in ("Z", "X", "")


def unreaped() -> int:
    """How many processes have ended, and process 1, whose children they are, has not waited."""
    found = (stat_fields(int(name))[:2] for name in _process_names())
    return sum(fields == ["Z", "1"] for fields in found)


def process_state(pid: int) -> str:
    """The state letter of `pid` in /proc/PID/stat; empty when there is no such process."""
    fields = stat_fields(pid)
    return fields[0] if fields else ""


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; with the pid it identifies one process."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def user_of(pid: int) -> int | None:
    """The user whose process `pid` is, or None when there is no such process."""
    found = status_of(f"/proc/{pid}")
    return None if found is None else found.st_uid


def group_of(pid: int) -> int | None:
    """The process group of `pid`, or None when there is no such process."""
    fields = stat_fields(pid)
    return int(fields[2]) if fields else None


def parent_of(pid: int) -> int | None:
    """The parent of `pid`, or None when there is no such process."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else None


def ignores(pid: int, number: int) -> bool:
    """True when `pid` ignores signal `number` (1 to 31), as a shell's background jobs do SIGINT."""
    fields = stat_fields(pid)
    # Field 33 of proc(5), `sigignore`: a mask whose lowest bit is signal 1.
    return bool(fields) and bool(int(fields[30]) >> (number - 1) & 1)


def catches(pid: int, number: int) -> bool:
    """True when `pid` has a handler for signal `number`, which then does not end it."""
    lines = read_text(f"/proc/{pid}/status").splitlines()
    mask = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def switches_of(pid: int) -> int | None:
    """How often the main thread of `pid` was taken off a processor; it stands while stopped."""
    lines = read_text(f"/proc/{pid}/status").splitlines()
    counts = [int(line.split()[1]) for line in lines if "ctxt_switches:" in line]
    return sum(counts) if counts else None


def command_of(pid: int) -> list[str]:
    """The command line of `pid`; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        return []


def _process_names() -> list[str]:
    return [name for name in names_in("/proc") if name.isdigit()]


def stat_fields(pid: int) -> list[str]:
    """What follows the name in /proc/PID/stat; nothing where there is no such process."""
    try:
        text = _read(f"/proc/{pid}/stat").decode("utf-8", "replace")
    except OSError:
        return []
    # The name in the second field may hold blanks and brackets, so fields are counted after it.
    return text.rpartition(")")[2].split()


def _read(path: str) -> bytes:
    """A file of /proc, whole, in a third of the system calls of Python's own files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        blocks = []
        while block := os.read(descriptor, _BLOCK):
            blocks.append(block)
        return b"".join(blocks)
    finally:
        os.close(descriptor)
