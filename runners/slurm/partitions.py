"""The GPUs of a cluster by partition and model, as one `sinfo` tells them."""

import re

import msgspec

from runners.slurm.client import ask
from runners.slurm.queue import seconds_of

_MOST_ROWS = 100_000
_FIELDS = ("Partition", "Available", "StateCompact", "Gres", "GresUsed", "Time")
_GPUS = re.compile(r"(?:^|,)gpu(?::([^:,()]+))?:(\d{1,6})(?![\w.])")
# Source: sinfo's man page, NODE STATE CODES; a `*` after it: the node does not answer.
_LOST = ("down", "drain", "drng", "fail", "maint", "reboot", "unk", "inval", "future", "error")


class PartitionGpus(msgspec.Struct, frozen=True):
    """The GPUs of one model in a partition: how many are free, used, and out of service.

    `limit_s` is the longest time that a job may ask for; None where there is no limit.
    """

    partition: str
    model: str
    total: int
    free: int
    used: int
    down: int
    is_default: bool = False
    limit_s: float | None = None


def partition_gpus() -> tuple[PartitionGpus, ...]:
    """What Slurm says of its GPUs now. Raises SlurmSilent or SlurmRefused, which say why."""
    columns = ",".join(f"{field}:|" for field in _FIELDS)
    return read_partitions(ask("sinfo", "--Node", "--noheader", "--all", f"--Format={columns}"))


def read_partitions(output: str) -> tuple[PartitionGpus, ...]:
    """The partitions in sinfo's answer, which has a line for each node; in its order."""
    found: dict[tuple[str, str], PartitionGpus] = {}
    for line in output.splitlines()[:_MOST_ROWS]:
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != len(_FIELDS) + 1 or not fields[0]:
            continue
        name, available, state, has, used, limit, _ = fields
        is_lost = available != "up" or "*" in state or state.startswith(_LOST)
        taken = _count(used)
        for model, total in _count(has).items():
            busy = min(taken.get(model, 0), total)
            idle = total - busy
            key = name.removesuffix("*"), model
            before = found.get(key) or PartitionGpus(
                *key, 0, 0, 0, 0, name.endswith("*"), seconds_of(limit)
            )
            found[key] = msgspec.structs.replace(
                before,
                total=before.total + total,
                used=before.used + busy,
                free=before.free + (0 if is_lost else idle),
                down=before.down + (idle if is_lost else 0),
            )
    return tuple(found.values())


def _count(gres: str) -> dict[str, int]:
    """The GPUs in `gpu:a100:8(S:0-1),gpu:h100:4` by model; an empty one where none is named."""
    found: dict[str, int] = {}
    for model, number in _GPUS.findall(gres):
        found[model] = found.get(model, 0) + int(number)
    return found
