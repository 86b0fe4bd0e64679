"""The Slurm job that this process is part of, as Slurm's variables say. Standard library only.

Sources: the sections on output environment variables of the manuals of sbatch and srun.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from runners.host.procfs import counted_kills, groups_of, memory_kills, start_ticks

_GIVEN = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The numbers that the node has for them; nobody changes these, unlike what follows."""
_SHOWN = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_NODE = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
_UUIDS = ("GPU-", "MIG-")


class SlurmJob(NamedTuple):
    """A job: its number, this node of it, and the GPUs it was given here, by number or UUID.

    `node` is empty where this process is on none of its nodes, as in the shell that `salloc` opens
    on a login node; `rank` is that of its node, 0 for the first.
    """

    id: str
    node: str
    gpus: tuple[str, ...] = ()
    rank: int = 0

    @property
    def here(self) -> str:
        """What is the job's on this node is called so."""
        return f"{self.id}.{self.node}" if _NODE.fullmatch(self.node) else self.id


def slurm_job(environment: Mapping[str, str] = os.environ) -> SlurmJob | None:
    """The job that `environment` was made for, or None outside of any."""
    number, node = environment.get("SLURM_JOB_ID", ""), environment.get("SLURMD_NODENAME", "")
    if not number.isdecimal():
        return None
    if not node:
        return SlurmJob(number, "")
    place = environment.get("SLURM_NODEID", "")
    rank = int(place) if place.isdecimal() and len(place) < 7 else 0
    shown = next((value for name in _SHOWN if (value := environment.get(name))), "")
    # MIG instances have no numbers of their own.
    if shown.startswith(_UUIDS):
        return SlurmJob(number, node, _split(shown), rank)
    given = next((value for name in _GIVEN if (value := environment.get(name))), shown)
    return SlurmJob(number, node, _split(given), rank)


def job_task() -> tuple[int, int] | None:
    """Pid and start (clock ticks) of the task that this process belongs to, None when it is gone.

    The step of a job, and with it what its processes may use, ends with its tasks.
    """
    pid = os.environ.get("SLURM_TASK_PID", "")
    ticks = start_ticks(int(pid)) if pid.isdecimal() else None
    return None if ticks is None else (int(pid), ticks)


def job_memory_kills(job: str) -> int | None:
    """Processes that the kernel killed because this process's step of `job` had no memory left.

    None where Slurm limits no memory, or it is not known.
    """
    for controllers, path in groups_of(os.getpid()):
        if f"/job_{job}/" not in f"{path}/":
            continue
        if "memory" in controllers.split(","):
            return counted_kills(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
        if not controllers and (kills := memory_kills(path)) is not None:
            return kills
    return None


def _split(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
