"""`gpus`: once, or every second until interrupted."""

import argparse
import json
import time
from collections.abc import Iterator
from shutil import which
from typing import Any

import msgspec

from runners.gpus.client import announce_reader, is_stale, latest, read_gpus
from runners.host.clock import local_time
from runners.model.gpus import GpuReading, GpuSnapshot, HostSnapshot
from runners.scheduling.allocation import obstacle
from runners.state.layout import StateDirectory
from runners.state.leases import Lease, held_leases
from tui.cli.output import echo, print_json, print_table
from tui.views.format import DASH, memory, percent
from tui.views.json_values import fields_json, iso
from tui.views.machines.gpu_text import gpu_label, process_text, trouble
from tui.views.safe import safe_json

_POLL_S = 0.1
_HEADINGS = ("GPU", "name", "use", "memory", "temp", "power", "held by", "others", "trouble")


def run_gpus(arguments: argparse.Namespace) -> None:
    """Show every GPU with its use and its holder, and the host; once, or with every new reading."""
    state = StateDirectory().create()
    if arguments.slurm:
        from tui.cli.partitions import run_partitions  # clusters only

        run_partitions(state, arguments.watch, arguments.json)
        return
    if arguments.watch:
        for reading in _readings(state):
            _watched(state, reading, arguments.json)
        return
    reading = read_gpus(state)
    leases = held_leases(state)
    if arguments.json:
        print_json(
            reading_json(reading, leases)
            if arguments.host
            else reading_json(reading, leases)["gpus"]
        )
    else:
        print_reading(reading, leases, arguments.host)
    if reading.problem:
        echo(f"GPUs: {reading.problem}")
    elif not reading.gpus and not arguments.host:
        cluster = "; `gpus --slurm` shows its cluster's" if which("sbatch") else ""
        echo(f"no GPU here; {host_text(reading.cpu)}; runs use the CPU{cluster}")


def reading_json(reading: GpuReading, leases: dict[str, list[Lease]]) -> dict[str, Any]:
    """The documented JSON of a reading: when, where, by which backend, the host, and every GPU."""
    return {
        "time": iso(reading.time),
        **fields_json(reading, "host", "backend", "driver", "problem", "job"),
        "stale": is_stale(reading),
        "cpu": msgspec.to_builtins(reading.cpu),
        "gpus": [gpu_json(gpu, leases.get(gpu.uuid, [])) for gpu in reading.gpus],
    }


def gpu_json(gpu: GpuSnapshot, leases: list[Lease]) -> dict[str, Any]:
    """The documented JSON of a GPU: memory in bytes, unknown is null, `runs` with their devices."""
    value: dict[str, Any] = msgspec.to_builtins(gpu)
    value["simulated"] = gpu.simulated
    if gpu.xid is not None:
        value["xid"]["time"] = iso(gpu.xid.time)
    value["run"] = leases[0].run if leases else None
    value["runs"] = [
        {
            **fields_json(lease, "run", "preset", "logical"),
            "mapping": f"GPU {gpu.index} → device {lease.logical}",
        }
        for lease in leases
    ]
    return value


def _readings(state: StateDirectory) -> Iterator[GpuReading]:
    """Every new reading; one that goes stale, or is excused, once more with its problem."""
    shown: tuple[float, str | None] | None = None
    while True:
        announce_reader(state)
        reading = latest(state)
        if reading is None or is_stale(reading):
            reading = read_gpus(state, patience_s=1.0)
        # An excuse has no reading of its own, so its time counts only while there is no problem.
        now = (
            (0.0 if reading.backend == "none" and reading.problem else reading.time),
            reading.problem,
        )
        if now != shown:
            shown = now
            yield reading
        time.sleep(_POLL_S)


def _watched(state: StateDirectory, reading: GpuReading, as_json: bool) -> None:
    leases = held_leases(state)
    if as_json:
        text = json.dumps(reading_json(reading, leases), ensure_ascii=False)
        print(safe_json(text), flush=True)
        return
    print(f"{local_time(reading.time, '%H:%M:%S')} {reading.host} · {host_text(reading.cpu)}")
    if reading.problem:
        print(f"GPUs: {reading.problem}")
    print_reading(reading, leases, False)
    print(flush=True)


def print_reading(reading: GpuReading, leases: dict[str, list[Lease]], host: bool) -> None:
    """Print a reading as a table, with a line about the host if wanted."""
    if host:
        print(
            f"{reading.host}: {host_text(reading.cpu)}; GPUs by {reading.backend}, driver "
            f"{reading.driver or DASH}"
        )
    if reading.job:
        print(f"the GPUs of Slurm job {reading.job}, in which this is")
    if reading.gpus:
        print_table(
            _HEADINGS, [gpu_row(gpu, reading, leases.get(gpu.uuid, [])) for gpu in reading.gpus]
        )


def host_text(cpu: HostSnapshot) -> str:
    """How busy a host is, in one line."""
    return (
        f"CPU {percent(cpu.cpu_percent)} of {cpu.cpu_count or DASH} cores, "
        f"memory {memory(cpu.memory_used)} of {memory(cpu.memory_total)}"
    )


def _unheld(gpu: GpuSnapshot, reading: GpuReading, others: str) -> str:
    """Whether a run would be put on a GPU that no run of ours holds."""
    against = obstacle(gpu, reading.gpus)
    if against is None:
        return "free"
    return "in use by others" if others else f"not free: {against}"


def gpu_row(gpu: GpuSnapshot, reading: GpuReading, leases: list[Lease]) -> tuple[str, ...]:
    """A GPU in the table's columns."""
    held = ", ".join(f"{lease.run} (device {lease.logical})" for lease in leases)
    others = "; ".join(
        process_text(process)[:60] for process in gpu.processes if process.run is None
    )
    name = f"{gpu.name} (simulated)" if gpu.simulated else gpu.name
    label = gpu_label(gpu, reading.gpus).removeprefix("GPU ")
    if gpu.error:
        return (label, name, gpu.error, "", "", "", held, "", "")
    return (
        label,
        name,
        percent(gpu.utilization),
        f"{memory(gpu.memory_used)} / {memory(gpu.memory_total)}",
        DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°",
        DASH if gpu.power_w is None else f"{gpu.power_w:.0f}W",
        held or _unheld(gpu, reading, others),
        others,
        trouble(gpu),
    )
