"""The GPUs of a cluster by partition and model, as one `sinfo` tells them."""

import re

import msgspec

from runners.slurm.client import ask
from runners.slurm.queue import seconds_of

_MOST_ROWS = 100_000
_FIELDS = ("Partition", "Available", "StateCompact", "Gres", "GresUsed", "Time")
_GPUS = re.compile(r"gpu(?::([^:()]+))?:([0-9]{1,6})(?:\([^()]*\))?")
_GRES = re.compile(r"(?:[^,()]|\([^()]*\))+")
_NONE = ("", "(null)", "none", "n/a")
# Source: sinfo's man page, NODE STATE CODES, and Slurm's node_state_string_compact().
_IN_SERVICE = frozenset(
    ("idle", "mix", "mixed", "alloc", "allocated", "comp", "completing", "plnd", "planned", "cloud")
) | frozenset(
    ("boot", "pow_up", "pow_dn", "powering_up", "power_down", "powering_down", "powered_down")
)
_LOST = (
    frozenset(
        ("down", "drain", "drained", "drng", "draining", "fail", "failing", "failg", "error", "unk")
    )
    | frozenset(
        ("unknown", "inval", "futr", "future", "no_respond", "maint", "reboot", "reboot_issued")
    )
    | frozenset(
        ("reboot_requested", "rebooting", "resv", "reserved", "npc", "perfctrs", "block", "blocked")
    )
)
_IN_USE = ("mix", "alloc", "comp")
"""Of these Slurm says how many are used, if only that none is."""
_LOST_MARKS = "*$^"
"""It does not answer, is kept for maintenance, or is being started anew."""
_STATE = re.compile(r"([a-z_]+)\+?([*~#!%$@^-]*)")


class PartitionGpus(msgspec.Struct, frozen=True):
    """The GPUs of one model in a partition: how many are free, used, and out of service.

    Reserved ones are out of service too. `limit_s` is the longest time that a job may ask for; None
    where there is no limit, or it is not understood.
    """

    partition: str
    model: str
    total: int
    free: int
    used: int
    down: int
    is_default: bool = False
    limit_s: float | None = None


def partition_gpus() -> tuple[tuple[PartitionGpus, ...], int]:
    """What Slurm says of its GPUs now, and how many lines of that are not understood.

    Raises SlurmSilent or SlurmRefused, which say why.
    """
    columns = ",".join(f"{field}:|" for field in _FIELDS)
    return read_partitions(ask("sinfo", "--Node", "--noheader", "--all", f"--Format={columns}"))


def read_partitions(output: str) -> tuple[tuple[PartitionGpus, ...], int]:
    """The partitions in sinfo's answer, which has a line for each node; in its order.

    And how many lines are left out, as they are not understood whole.
    """
    found: dict[tuple[str, str], PartitionGpus] = {}
    lines = [line for line in output.splitlines() if line.strip()]
    unread = max(0, len(lines) - _MOST_ROWS)
    for line in lines[:_MOST_ROWS]:
        fields = [field.strip() for field in line.split("|")]
        gpus = _gpus_of(fields)
        if gpus is None:
            unread += 1
            continue
        name, limit = fields[0], fields[5]
        for model, (total, busy, idle, lost) in gpus.items():
            key = name.removesuffix("*"), model
            before = found.get(key) or PartitionGpus(
                *key, 0, 0, 0, 0, name.endswith("*"), seconds_of(limit)
            )
            found[key] = msgspec.structs.replace(
                before,
                total=before.total + total,
                used=before.used + busy,
                free=before.free + idle,
                down=before.down + lost,
            )
    return tuple(found.values()), unread


def _gpus_of(fields: list[str]) -> dict[str, tuple[int, int, int, int]] | None:
    """All, used, free and lost GPUs of a node's line by model; None: it is not understood."""
    if len(fields) != len(_FIELDS) + 1 or not fields[0]:
        return None
    _, available, state, has, used, _, _ = fields
    total, taken, in_service = _count(has), _count(used), _in_service(state.lower())
    if total is None or taken is None:
        return None
    if not total:
        return {}
    if in_service is None or (in_service and state.lower().startswith(_IN_USE) and not taken):
        return None
    if not set(taken) <= set(total):
        # Used ones are told without their model, or by another name: of all models together.
        total, taken = {_one_of(total): sum(total.values())}, {_one_of(total): sum(taken.values())}
    shown = {}
    for model, number in total.items():
        busy = taken.get(model, 0)
        if busy > number:
            return None
        idle = number - busy
        is_free = in_service and available == "up"
        shown[model] = (number, busy, idle, 0) if is_free else (number, busy, 0, idle)
    return shown


def _one_of(models: dict[str, int]) -> str:
    return next(iter(models)) if len(models) == 1 else ""


def _in_service(state: str) -> bool | None:
    """Whether jobs may begin on a node of that state; None for a word that is not known."""
    found = _STATE.fullmatch(state)
    if found is None or found[1] not in _IN_SERVICE | _LOST:
        return None
    return found[1] in _IN_SERVICE and not set(found[2]) & set(_LOST_MARKS)


def _count(gres: str) -> dict[str, int] | None:
    """The GPUs in `gpu:a100:8(S:0-1),gpu:h100:4` by model; an empty one where none is named.

    None where GPUs are named in a way that is not understood.
    """
    found: dict[str, int] = {}
    if gres.lower() in _NONE:
        return found
    parts = _GRES.findall(gres)
    if ",".join(parts) != gres:
        return None
    for part in parts:
        if part.partition(":")[0] != "gpu":
            continue
        match = _GPUS.fullmatch(part)
        if match is None:
            return None
        model = match[1] or ""
        found[model] = found.get(model, 0) + int(match[2])
    return found
