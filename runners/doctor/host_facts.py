"""What the machine says of itself that decides about runs: limits, memory, network, clock."""

import os
import re
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from runners.doctor.logout import LogoutVerdict, judge_logout
from runners.host.files import ABSENT, absence, is_folder, is_there, names_in, read_text
from runners.host.memory_group import memory_limit
from runners.host.open_files import open_files_of_runs

_KFD = "sys/class/kfd/kfd/topology/nodes"


class HostFacts(msgspec.Struct, frozen=True):
    """Facts of this host; bytes, and None where the system does not say.

    `open_files` is what each process of a run may hold, below 0 without a limit; `read_at` unix
    seconds. `memory_limit` is the smallest memory limit of the control groups above us.
    `interfaces` are network interfaces by name, `routed` the one of the default route.
    """

    open_files: int = -1
    shm_free: int | None = None
    shm_total: int | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    memory_limit: int | None = None
    memory_used: int | None = None
    logout: LogoutVerdict = LogoutVerdict("safe", "")
    clock_synchronized: bool | None = None
    clock_behind_s: float = 0.0
    numa_balancing: bool | None = None
    numa_nodes: int = 1
    kernel_command: str = ""
    interfaces: tuple[str, ...] = ()
    routed: str = ""
    read_at: float = 0.0


class DiskRoom(NamedTuple):
    """What a disk still takes: bytes, and files; None where its file system does not count them."""

    free: int
    inodes: int | None = None


def room_in(folder: Path) -> DiskRoom:
    """What the disk of an existing folder still takes. Raises OSError."""
    found = os.statvfs(folder)
    return DiskRoom(found.f_frsize * found.f_bavail, found.f_favail if found.f_files else None)


def present_folder(path: Path) -> Path:
    """The folder at `path`, or the nearest above it that is there."""
    while not is_there(path) and path != path.parent:
        path = path.parent
    return path


def read_host(root: Path = Path("/")) -> HostFacts:
    """Look at this machine; `root` is another one's for a test."""
    memory = _meminfo(root)
    group = memory_limit(root)
    shm_free, shm_total = _shared_memory(root / "dev/shm")
    return HostFacts(
        open_files=open_files_of_runs(),
        shm_free=shm_free,
        shm_total=shm_total,
        memory_total=memory.get("MemTotal"),
        memory_available=memory.get("MemAvailable"),
        memory_limit=group.limit if group else None,
        memory_used=group.used if group else None,
        logout=judge_logout(root),
        clock_synchronized=clock_synchronized(root),
        clock_behind_s=max(0.0, Path(__file__).stat().st_mtime - time.time()),
        numa_balancing=_flag(root / "proc/sys/kernel/numa_balancing"),
        numa_nodes=len(_names(root / "sys/devices/system/node", r"node\d+")) or 1,
        kernel_command=read_text(root / "proc/cmdline").strip(),
        interfaces=tuple(_names(root / "sys/class/net", r".+")),
        routed=default_interface(root),
        read_at=time.time(),
    )


def clock_synchronized(root: Path = Path("/")) -> bool | None:
    """Whether timesyncd, chrony or ntpd, by their files, keeps the clock; None if none says."""
    # Only chrony may look into its own folder, which is there while it runs.
    signs = ("run/systemd/timesync/synchronized", "run/chrony/chronyd.pid", "run/ntpd.pid")
    if any(absence(root / sign) != ABSENT for sign in signs):
        return True
    return False if is_folder(root / "run/systemd/timesync") else None


def default_interface(root: Path = Path("/")) -> str:
    """The interface of the default route with the least metric (proc_net_route); empty if none."""
    rows = [line.split() for line in read_text(root / "proc/net/route").splitlines()[1:]]
    routes = [(int(row[6]), row[0]) for row in rows if len(row) > 7 and row[1] == "00000000"]
    return min(routes, default=(0, ""))[1]


def kernel_architectures(root: Path = Path("/")) -> list[str]:
    """AMD GPUs' architectures in the kernel driver's order, e.g. gfx1101.

    Form of gfx_target_version: major × 10000 + minor × 100 + stepping, the last two written in
    hexadecimal in the name (kernel, amdkfd topology).
    """
    found = []
    for name in sorted(_names(root / _KFD, r"\d+"), key=int):
        version = re.search(
            r"^gfx_target_version (\d+)", read_text(root / _KFD / name / "properties"), re.MULTILINE
        )
        number = int(version[1]) if version else 0
        if number:
            major, minor, stepping = number // 10000, number // 100 % 100, number % 100
            found.append(f"gfx{major}{minor:x}{stepping:x}")
    return found


def _shared_memory(folder: Path) -> tuple[int, int] | tuple[None, None]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None, None
    return found.f_frsize * found.f_bavail, found.f_frsize * found.f_blocks


def _meminfo(root: Path) -> dict[str, int]:
    pairs = re.findall(r"^(\w+):\s+(\d+) kB", read_text(root / "proc/meminfo"), re.MULTILINE)
    return {name: int(count) * 1024 for name, count in pairs}


def _flag(path: Path) -> bool | None:
    text = read_text(path).strip()
    return None if not text.isdecimal() else text != "0"


def _names(folder: Path, pattern: str) -> list[str]:
    return [name for name in names_in(folder) if re.fullmatch(pattern, name)]
