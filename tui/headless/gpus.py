"""`gpus`."""

import argparse
from typing import Any

import msgspec

from runners.model.errors import ExitCode
from runners.model.gpus import GpuSnapshot
from runners.model.paths import StateDirectory
from runners.placement.leases import Lease, held_leases
from runners.placement.reading import read_gpus
from tui.format import DASH, memory, percent
from tui.headless.output import print_json, print_table, say


def run_gpus(arguments: argparse.Namespace) -> int:
    """Show every GPU with its use and its holder."""
    state = StateDirectory().create()
    reading = read_gpus(state)
    leases = held_leases(state)
    if arguments.json:
        print_json([gpu_json(gpu, leases.get(gpu.uuid, [])) for gpu in reading.gpus])
    elif reading.gpus:
        headings = ("GPU", "name", "use", "memory", "temp", "power", "held by", "others")
        print_table(headings, [_row(gpu, leases.get(gpu.uuid, [])) for gpu in reading.gpus])
    if reading.problem:
        say(f"GPUs: {reading.problem}")
    elif not reading.gpus:
        cpu = reading.cpu
        say(
            f"no GPU here; CPU {percent(cpu.cpu_percent)} of {cpu.cpu_count or DASH} cores, "
            f"memory {memory(cpu.memory_used)} of {memory(cpu.memory_total)}; runs use the CPU"
        )
    return ExitCode.DONE


def gpu_json(gpu: GpuSnapshot, leases: list[Lease]) -> dict[str, Any]:
    """The documented JSON of a GPU: memory in bytes, unknown is null."""
    value: dict[str, Any] = msgspec.to_builtins(gpu)
    value["simulated"] = gpu.simulated
    value["run"] = leases[0].run if leases else None
    value["runs"] = [{"run": lease.run, "preset": lease.preset, "logical": lease.logical} for lease in leases]
    return value


def _row(gpu: GpuSnapshot, leases: list[Lease]) -> tuple[str, ...]:
    held = ", ".join(f"{lease.run} (device {lease.logical})" for lease in leases)
    others = ", ".join(
        f"pid {process.pid} {process.user or 'outside'}" for process in gpu.processes if process.run is None
    )
    name = f"{gpu.name} (simulated)" if gpu.simulated else gpu.name
    if gpu.error:
        return (str(gpu.index), name, gpu.error, "", "", "", held, "")
    return (
        str(gpu.index),
        name,
        percent(gpu.utilization),
        f"{memory(gpu.memory_used)} / {memory(gpu.memory_total)}",
        DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°",
        DASH if gpu.power_w is None else f"{gpu.power_w:.0f}W",
        held or "free",
        others,
    )
