"""Limits, memory, logout, clock, and what RCCL warns about, for a run on this machine."""

from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.doctor.host_facts import HostFacts
from runners.model.parameters import leaf_of
from runners.model.python_command import computing_processes
from runners.model.units import gib_text
from runners.verify.facts import LaunchFacts

ENOUGH_FILES = 4096
"""Open files that loaders of several workers get through (each shared tensor holds one)."""
SMALL_SHM = 1 << 30
_WORKERS = ("workers", "num_workers", "n_workers", "dataloader_num_workers", "loader_workers")
_TIGHT = 2 << 30


def workers_of(facts: LaunchFacts) -> int | None:
    """How many loader processes each process of the run starts; None when nothing says it."""
    for name, value in facts.settings.items():
        if leaf_of(name) in _WORKERS and isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def check_open_files(facts: LaunchFacts) -> Iterator[Check]:
    """How many files the run may hold open."""
    host = facts.host
    if host is None:
        return
    soft = host.files_soft
    if 0 <= soft < ENOUGH_FILES and workers_of(facts) != 0:
        text = f"{soft:,} open files at most"
        yield Check("open files", "WARN", text, "ulimit -n 65536 before launching")
    else:
        yield Check("open files", "PASS", "unlimited" if soft < 0 else f"{soft:,}")


def shared_memory_asked(facts: LaunchFacts) -> int | None:
    """Bytes of /dev/shm that loader workers fill at most; None where no sample's size is known.

    PyTorch's loaders keep two batches of every worker ready.
    """
    sample, workers = facts.spec.expect.shared_memory_per_sample, workers_of(facts)
    if sample is None or workers is None or facts.batch is None:
        return None
    return round(sample * facts.batch.each * 2 * workers * computing_processes(facts.plan))


def check_shared_memory(facts: LaunchFacts) -> Iterator[Check]:
    """/dev/shm, where loader workers and NCCL pass tensors."""
    host, workers = facts.host, workers_of(facts)
    if host is None or host.shm_free is None:
        return
    text = f"/dev/shm has {gib_text(host.shm_free)} free"
    asked = shared_memory_asked(facts)
    if asked is not None and asked > 0:
        text += f"; {workers} loader workers with two batches each fill {gib_text(asked)} at most"
        if asked > host.shm_free:
            advice = "fewer workers, or docker run --shm-size=16g or --ipc=host"
            yield Check("shared memory", "FAIL", text, advice)
        else:
            yield Check("shared memory", "PASS", text)
        return
    uses = (workers or 0) > 0 or computing_processes(facts.plan) > 1
    if uses and host.shm_free < SMALL_SHM:
        what = "loader workers" if (workers or 0) > 0 else "NCCL"
        advice = "docker run --shm-size=16g or --ipc=host, or workers 0"
        yield Check("shared memory", "WARN", f"{text}; {what} of this run use it", advice)
    else:
        yield Check("shared memory", "PASS", text)


def check_host_memory(facts: LaunchFacts) -> Iterator[Check]:
    """Memory of the host, and the limit of the control group the run would live in."""
    host = facts.host
    if host is None:
        return
    limit, used = host.memory_limit, host.memory_used
    if limit is not None and (host.memory_total is None or limit < host.memory_total):
        left = limit - (used or 0)
        text = f"a control group limits it to {gib_text(limit)}, {gib_text(left)} are left"
        advice = "a higher limit (docker --memory, Slurm --mem), or fewer workers"
    elif host.memory_available is not None:
        left = host.memory_available
        text = f"{gib_text(left)} available"
        advice = "end other programs, or use fewer workers"
    else:
        return
    verdict: Verdict = "WARN" if left < _TIGHT else "PASS"
    yield Check("memory", verdict, text, advice if verdict == "WARN" else "")


def check_logout(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the run would outlive the login."""
    if facts.host is not None:
        found = facts.host.logout
        verdict: Verdict = "PASS" if found.outcome == "safe" else "WARN"
        yield Check("logout", verdict, found.reason, found.advice)


def check_clock(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the clock is right, as far as it can be told."""
    if facts.host is not None:
        yield from judge_clock(facts.host)


def judge_clock(host: HostFacts) -> Iterator[Check]:
    """The clock of a host."""
    if host.clock_behind_s > 60:
        text = "it is set before the time at which this program was installed"
        yield Check("clock", "WARN", text, "set it: timedatectl set-ntp true")
    elif host.clock_synchronized is False:
        text = "no time service has synchronised it"
        yield Check("clock", "WARN", text, "timedatectl set-ntp true; certificates need it too")
    else:
        yield Check("clock", "PASS", "kept by a time service" if host.clock_synchronized else "set")


def check_rccl(facts: LaunchFacts) -> Iterator[Check]:
    """What RCCL warns about at its start on AMD machines (rccl, src/init.cc)."""
    host = facts.host
    if host is None or len(facts.plan.gpus) < 2 or not facts.concerns("RCCL"):
        return
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
