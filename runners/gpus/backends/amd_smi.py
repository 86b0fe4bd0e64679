"""What AMD's `amdsmi` knows beyond sysfs; optional, as its version must match the system's ROCm.

Its import prints to stdout and raises KeyError or AttributeError where ROCm is missing or
of another version. So it is imported on first use, with stdout closed off, and every
failure means only "not known".
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class AmdSmi:
    """amdsmi's readings by PCI address or, for partitions, by KFD's id; none where it fails."""

    def __init__(self) -> None:
        self._smi: Any = None
        self._handles: dict[str, Any] = {}
        self._parts: dict[str, tuple[Any, Any, int]] = {}
        try:
            with _quiet_stdout():
                smi = import_module("amdsmi")
                smi.amdsmi_init()
                for handle in smi.amdsmi_get_processor_handles():
                    self._note(smi, handle)
            self._smi = smi
        except Exception:
            # Not only ImportError: see the module's docstring.
            self._handles, self._parts = {}, {}

    def _note(self, smi: Any, handle: Any) -> None:
        """Remember a handle by address, and by KFD's id with that of the card's first partition."""
        address = str(smi.amdsmi_get_gpu_device_bdf(handle)).lower()
        self._handles.setdefault(address, handle)
        known = _answer(lambda: smi.amdsmi_get_gpu_kfd_info(handle))
        number = known.get("current_partition_id")
        if isinstance(number, int):
            # For a partition, the function in its address is (or was) the partition's number.
            first = self._handles.get(f"{address[:-1]}0", handle)
            self._parts[str(known.get("kfd_id"))] = (handle, first, number)

    def partition_fields(self, gpu_id: str) -> dict[str, float | int | None]:
        """What amdsmi reports of the partition with KFD's id `gpu_id`: only its own values."""
        if gpu_id not in self._parts:
            return {}
        smi = self._smi
        handle, first, number = self._parts[gpu_id]
        memory = _answer(lambda: smi.amdsmi_get_gpu_vram_usage(handle))
        # Metrics are the card's, of its first partition; a list inside is by partition.
        metrics = _answer(lambda: smi.amdsmi_get_gpu_metrics_info(first))
        busy = metrics.get("xcp_stats.gfx_busy_inst")
        parts = busy[number] if isinstance(busy, list) and number < len(busy) else []
        known = [share for share in (_number(value, 100) for value in parts) if share is not None]
        return {
            "utilization": sum(known) / len(known) if known else None,
            "memory_used": _mebibytes(memory.get("vram_used")),
            "memory_total": _mebibytes(memory.get("vram_total")),
        }

    def fields(self, pci: str) -> dict[str, float | int | None]:
        """What amdsmi reports of the GPU at `pci`, by GpuSnapshot's fields; else None or absent."""
        handle = self._handles.get(pci)
        if handle is None:
            return {}
        smi = self._smi
        activity = _answer(lambda: smi.amdsmi_get_gpu_activity(handle))
        memory = _answer(lambda: smi.amdsmi_get_gpu_vram_usage(handle))
        power = _answer(lambda: smi.amdsmi_get_power_info(handle))
        clock = _answer(lambda: smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX))
        watts = power.get("current_socket_power"), power.get("average_socket_power")
        # The hotspot: the MI300, for which amdsmi is mostly asked, has no edge sensor.
        heat = (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT)
        degrees = _answer(lambda: {"now": smi.amdsmi_get_temp_metric(handle, *heat)})
        return {
            "utilization": _number(activity.get("gfx_activity"), 100),
            "memory_used": _mebibytes(memory.get("vram_used")),
            "memory_total": _mebibytes(memory.get("vram_total")),
            "power_w": _number(watts[0]) or _number(watts[1]),
            "clock_mhz": _whole(clock.get("clk")),
            "temperature_c": _number(degrees.get("now"), 200),
        }


def _answer(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except Exception:  # its own exceptions, and those of a library it does not match
        return {}


def _number(value: Any, most: float = 10_000) -> float | None:
    """A plausible number, or None: for the unknown, amdsmi has "N/A" or a field's largest value."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= most else None


def _whole(value: Any) -> int | None:
    known = _number(value)
    return None if known is None else int(known)


def _mebibytes(value: Any) -> int | None:
    known = _number(value, 1 << 24)
    return None if known is None else int(known) << 20


@contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Send file descriptor 1 to /dev/null for the block, because amdsmi's import prints there."""
    sys.stdout.flush()
    # The descriptor, not sys.stdout: C libraries print too.
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
