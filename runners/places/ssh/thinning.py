"""What is left away before a snapshot goes over a link: steps that nobody sees, and trembling.

What only grows with time, and what trembles, is rounded: an idle machine says nothing.
"""

import time
from decimal import ROUND_HALF_UP, Decimal
from typing import TypeVar

from msgspec.structs import replace

from runners.cost.meter import Meter
from runners.guard.rule import GuardView
from runners.model.gpus import GpuDetail, GpuProcess, GpuReading, GpuSnapshot
from runners.places.run_row import RunRow, pack_metrics
from runners.places.snapshot import PlaceSnapshot

LONGEST = 400
"""Characters of a remark or a note."""
DIGITS = 6
"""Of a metric; a pace has three."""
CENT = Decimal("0.01")
ETA_S, SHARE = 10.0, 0.001
PERCENT, MEMORY, DEGREES, WATTS, MHZ = 1.0, 64 << 20, 2.0, 10.0, 100
"""The steps of a GPU's readings."""
_BYTES_S = 1e9
_CLOCK_AGREES_S, _LASTED_S = 2.0, 10.0
_HOST_PERCENT, _HOST_MEMORY, _DISK = 10.0, 1 << 30, 1 << 30
_MOST_PROCESSES = 32

Number = TypeVar("Number", int, float)


def thinned(snapshot: PlaceSnapshot) -> PlaceSnapshot:
    """The snapshot in steps that one sees."""
    return replace(
        snapshot,
        runs={run_id: thin_row(row) for run_id, row in snapshot.runs.items()},
        reading=None if snapshot.reading is None else thin_reading(snapshot.reading),
        meter=thin_meter(snapshot.meter),
        guard=None if snapshot.guard is None else _guard(snapshot.guard),
    )


def thin_row(row: RunRow) -> RunRow:
    """A row as it is sent: how long a live run has run is told by its start."""
    metrics = {
        name: (digits(last, DIGITS), digits(best, DIGITS), at)
        for name, (last, best, at) in row.metrics.items()
    }
    return replace(
        row,
        stamp=0,
        remark=row.remark[:LONGEST],
        note=row.note[:LONGEST],
        seconds=_lasted(row),
        fraction=step(row.fraction, SHARE),
        last=digits(row.last, DIGITS),
        best=digits(row.best, DIGITS),
        packed=pack_metrics(metrics, row.headline, row.judged_by, row.validation),
        cost=cents(row.cost),
        eta_s=step(row.eta_s, ETA_S) or row.eta_s,
        rate=digits(row.rate, 3),
        stop_until=step(row.stop_until, 1.0),
    )


def _lasted(row: RunRow) -> float | None:
    """Of a live run nothing, as long as its start tells it: its clock may have been set since."""
    if not row.is_live or row.started is None or row.seconds is None:
        return row.seconds
    by_clock = time.time() - row.started
    return None if abs(by_clock - row.seconds) < _CLOCK_AGREES_S else step(row.seconds, _LASTED_S)


def thin_reading(reading: GpuReading) -> GpuReading:
    """A reading as it is sent: its moment is that at which it comes."""
    cpu = replace(
        reading.cpu,
        cpu_percent=step(reading.cpu.cpu_percent, _HOST_PERCENT),
        load_1m=step(reading.cpu.load_1m, 1.0),
        memory_used=step(reading.cpu.memory_used, _HOST_MEMORY),
        disk_free=step(reading.cpu.disk_free, _DISK),
    )
    return replace(reading, time=0.0, cpu=cpu, gpus=tuple(thin_gpu(gpu) for gpu in reading.gpus))


def thin_gpu(gpu: GpuSnapshot) -> GpuSnapshot:
    """A GPU as it is sent: without the counter of its energy, which only its sampler reads."""
    return replace(
        gpu,
        utilization=step(gpu.utilization, PERCENT),
        memory_utilization=step(gpu.memory_utilization, 5 * PERCENT),
        memory_used=step(gpu.memory_used, MEMORY),
        temperature_c=step(gpu.temperature_c, DEGREES),
        power_w=step(gpu.power_w, WATTS),
        clock_mhz=step(gpu.clock_mhz, MHZ),
        memory_clock_mhz=step(gpu.memory_clock_mhz, MHZ),
        processes=tuple(_process(process) for process in gpu.processes[:_MOST_PROCESSES]),
        energy_j=None,
        detail=None if gpu.detail is None else _detail(gpu.detail),
    )


def _process(process: GpuProcess) -> GpuProcess:
    return replace(
        process,
        command=process.command and process.command[:LONGEST],
        memory_used=step(process.memory_used, MEMORY),
        utilization=step(process.utilization, 10 * PERCENT),
    )


def _detail(detail: GpuDetail) -> GpuDetail:
    return replace(
        detail,
        fan_percent=step(detail.fan_percent, 5 * PERCENT),
        hotspot_c=step(detail.hotspot_c, DEGREES),
        memory_c=step(detail.memory_c, DEGREES),
        pcie_bytes_s=step(detail.pcie_bytes_s, _BYTES_S),
        link_bytes_s=step(detail.link_bytes_s, _BYTES_S),
    )


def thin_meter(meter: Meter) -> Meter:
    """What is spent, in whole cents."""
    return replace(
        meter,
        session=_dollars(meter.session),
        live_runs=_dollars(meter.live_runs),
        budget_left=_dollars(meter.budget_left),
        idle=_dollars(meter.idle),
        until=step(meter.until, 60.0),
        lasted_s=step(meter.lasted_s, 60.0),
    )


def _guard(guard: GuardView) -> GuardView:
    """The guard without the address that it calls: that may be a secret."""
    return guard if guard.rule is None else replace(guard, rule=replace(guard.rule, webhook=""))


def step(value: Number | None, size: Number) -> Number | None:
    """`value` in whole steps of `size`; unknown stays None."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return value
    return type(value)(round(value / size) * size)


def digits(value: float | None, count: int) -> float | None:
    """`value` with so many digits; a whole number stays as it is, unknown stays None."""
    return value if value is None or float(value).is_integer() else float(f"{value:.{count}g}")


def cents(cost: float | None) -> float | None:
    """Dollars in whole cents; what is less than half a cent, and not nothing, is a tenth of one."""
    return cost if not cost else round(cost, 2) or 0.001


def _dollars(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else amount.quantize(CENT, ROUND_HALF_UP)
