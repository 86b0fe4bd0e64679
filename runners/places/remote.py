"""Another machine's runs and GPUs as they stand among those of this one.

Nothing is translated but names and times: a run is called `machine/id`, a GPU `machine/uuid`, and
moments are those of the clock of here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from runners.host.clock import age
from runners.model.gpus import GpuSnapshot
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.state.leases import Lease


class RemoteRows(NamedTuple):
    """Rows of other machines, newest first; of the machines `unreached`, as they were seen last.

    `version` tells one such set of ended rows from another.
    """

    live: tuple[RunRow, ...] = ()
    ended: tuple[RunRow, ...] = ()
    version: int = 0
    unreached: frozenset[str] = frozenset()
    letters: Mapping[str, str] = MappingProxyType({})
    older: int = 0
    """How many more ended, which the machines that are reached have not told of."""


def remote_row(machine: str, row: RunRow, clock_offset: float) -> RunRow:
    """The row of a run on `machine`, whose clock is `clock_offset` seconds ahead."""
    kept = row.checkpoint
    return replace(
        row,
        id=f"{machine}/{row.id}",
        group=f"{machine}/{row.group}" if row.group else "",
        host=machine,
        created=row.created - clock_offset,
        started=_shifted(row.started, clock_offset),
        ended=_shifted(row.ended, clock_offset),
        stop_until=_shifted(row.stop_until, clock_offset),
        checkpoint=kept and replace(kept, modified=kept.modified - clock_offset),
    )


def as_of(rows: Iterable[RunRow], now: float) -> list[RunRow]:
    """Live rows with the seconds (s) that they have run by `now` (unix s), unless they say it."""
    return [
        row
        if row.started is None or row.seconds is not None
        else replace(row, seconds=age(row.started, now))
        for row in rows
    ]


def remote_gpus(machine: str, snapshot: PlaceSnapshot, clock_offset: float) -> list[GpuSnapshot]:
    """The GPUs of `machine`."""
    return [_gpu(machine, gpu, clock_offset) for gpu in snapshot.gpus]


def _gpu(machine: str, gpu: GpuSnapshot, clock_offset: float) -> GpuSnapshot:
    processes = [
        replace(
            process,
            run=process.run and f"{machine}/{process.run}",
            started=_shifted(process.started, clock_offset),
        )
        for process in gpu.processes
    ]
    return replace(
        gpu,
        uuid=f"{machine}/{gpu.uuid}",
        mig_parent=gpu.mig_parent and f"{machine}/{gpu.mig_parent}",
        xid=gpu.xid and replace(gpu.xid, time=gpu.xid.time - clock_offset),
        processes=tuple(processes),
    )


def remote_leases(machine: str, snapshot: PlaceSnapshot) -> dict[str, list[Lease]]:
    """Which runs of `machine` hold its GPUs, by UUID."""
    return {
        f"{machine}/{uuid}": [
            replace(lease, uuid=f"{machine}/{uuid}", run=f"{machine}/{lease.run}")
            for lease in leases
        ]
        for uuid, leases in snapshot.leases.items()
    }


def _shifted(moment: float | None, clock_offset: float) -> float | None:
    return None if moment is None else moment - clock_offset
