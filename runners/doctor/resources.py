"""What this machine has for runs, judged: open files, memory, disks, logout, clock.

`doctor` asks for the machine alone, `verify` for a run on it: both say what is found here.
"""

from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.doctor.host_facts import DiskRoom, HostFacts
from runners.host.clock import local_time
from runners.model.units import gib_text

ENOUGH_FILES = 4096
"""Open files that loaders of several workers get through (each shared tensor holds one)."""
SMALL_SHM = 1 << 30
SMALL_SHARE_OF_SHM = 0.1
TIGHT_MEMORY = 2 << 30
LITTLE_ROOM = 5 << 30
"""Bytes that should stay free on a disk: for checkpoints, logs, events and the system."""
NO_ROOM = 50 << 20
FEW_INODES = 10_000
_BEHIND_S = 60.0


def check_host(host: HostFacts) -> Iterator[Check]:
    """Everything that is judged of a machine for runs on it, whatever they are."""
    yield judge_logout(host)
    yield judge_shared_memory(host)
    yield judge_open_files(host)
    yield from judge_memory(host)
    yield judge_clock(host)


def judge_open_files(host: HostFacts) -> Check:
    """How many files each process of a run may hold open."""
    if 0 <= host.open_files < ENOUGH_FILES:
        text = f"a process of a run may hold {host.open_files:,} open"
        advice = "`ulimit -Hn 65536` before launching (an administrator): loader workers need many"
        return Check("open files", "WARN", text, advice)
    text = "unlimited" if host.open_files < 0 else f"{host.open_files:,}"
    return Check("open files", "PASS", text)


def judge_shared_memory(host: HostFacts) -> Check:
    """/dev/shm, where loader workers and NCCL pass their tensors."""
    if host.shm_free is None:
        return Check("shared memory", "WARN", "no /dev/shm", "loader workers will fail")
    text = f"/dev/shm has {gib_text(host.shm_free)} free"
    share = SMALL_SHARE_OF_SHM * (host.shm_total or 0)
    if host.shm_free < max(SMALL_SHM, share):
        advice = "docker run --shm-size=16g or --ipc=host, or workers 0"
        advice = f"loader workers fail when it is full: {advice}"
        return Check("shared memory", "WARN", text, advice)
    return Check("shared memory", "PASS", text)


def judge_memory(host: HostFacts) -> Iterator[Check]:
    """Memory of the host, or of the control group that we and our runs live in."""
    limit, total = host.memory_limit, host.memory_total
    if limit is not None and (total is None or limit < total):
        left = limit - (host.memory_used or 0)
        text = f"a control group limits it to {gib_text(limit)}, {gib_text(left)} are left"
        advice = "a higher limit (docker --memory, Slurm --mem), or fewer workers"
    elif host.memory_available is not None:
        left = host.memory_available
        text = f"{gib_text(left)} available"
        if total is not None:
            text = f"{gib_text(total)}, {text}"
        advice = "end other programs, or use fewer workers: the kernel kills the largest process"
    else:
        return
    tight = left < TIGHT_MEMORY
    yield Check("memory", "WARN" if tight else "PASS", text, advice if tight else "")


def judge_room(room: DiskRoom, to_come: int = 0) -> tuple[Verdict, str]:
    """Whether a disk takes what runs write when `to_come` bytes are written, and what is free."""
    text = f"{gib_text(room.free)} free"
    if room.inodes is not None and room.inodes < FEW_INODES:
        text += f", {room.inodes:,} inodes left" if room.inodes else ", no inodes left"
    if room.free < to_come + NO_ROOM or room.inodes == 0:
        return "FAIL", text
    few = room.inodes is not None and room.inodes < FEW_INODES
    return ("WARN" if few or room.free < to_come + LITTLE_ROOM else "PASS"), text


def judge_logout(host: HostFacts) -> Check:
    """Whether logging out would end runs."""
    found = host.logout
    verdict: Verdict = "PASS" if found.outcome == "safe" else "WARN"
    return Check("logout", verdict, found.reason, found.advice)


def judge_clock(host: HostFacts) -> Check:
    """Whether the clock is right, as far as it can be told."""
    shown = local_time(host.read_at, "%Y-%m-%d %H:%M:%S %z")
    if host.clock_behind_s > _BEHIND_S:
        text = f"{shown}: before the time at which this program was installed"
        return Check("clock", "WARN", text, "set it: timedatectl set-ntp true")
    if host.clock_synchronized is False:
        text = f"{shown}: no time service has synchronised it"
        return Check("clock", "WARN", text, "timedatectl set-ntp true; certificates need it too")
    kept = ", kept by a time service" if host.clock_synchronized else ""
    return Check("clock", "PASS", f"{shown}{kept}")


def judge_rccl(host: HostFacts) -> Iterator[Check]:
    """What RCCL warns about at its start on a machine of several AMD GPUs (rccl, src/init.cc)."""
    balances = host.numa_balancing and host.numa_nodes > 1
    passes_through = "iommu=pt" in host.kernel_command.split()
    if balances:
        text = "automatic NUMA balancing is on: collectives slow down at random"
        yield Check("RCCL", "WARN", text, "sudo sysctl kernel.numa_balancing=0")
    if not passes_through:
        text = "the kernel was started without iommu=pt: transfers between GPUs may hang"
        yield Check("RCCL", "WARN", text, "add iommu=pt to the kernel's command line")
    if passes_through and not balances:
        yield Check("RCCL", "PASS", "NUMA balancing and IOMMU are set as it recommends")
