"""What of NVIDIA's GPUs need not be read every second: one GPU's at each reading, in turn.

NVML measures PCIe traffic over 20 ms for each direction, in which the call waits; so no reading
waits for more than one GPU. Source: nvml.h of CUDA 12, for the numbers of fields and modes.
"""

from collections.abc import Sequence
from typing import Any

import pynvml

from runners.gpus.backends.nvml_calls import LostGpu, ask, number
from runners.model.gpus import GpuDetail

_COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
_UNKNOWN_STATE = 32
_SENT, _RECEIVED = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES; in KB/s
_MEMORY_HEAT = 82  # NVML_FI_DEV_MEMORY_TEMP
_LINK_SENT, _LINK_RECEIVED = 138, 139  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, …_RX; in KiB
_ALL_LINKS = 0xFFFFFFFF
_KIB = 1024


class NvmlDetails:
    """The details last read of each GPU, by UUID."""

    def __init__(self) -> None:
        self._known: dict[str, GpuDetail] = {}
        self._busy: dict[str, dict[int, float]] = {}
        self._links: dict[str, tuple[float, int]] = {}
        self._seen: dict[str, int] = {}
        self._turn = 0

    def of(self, uuid: str) -> GpuDetail | None:
        """What is known of a GPU; None before its first turn."""
        return self._known.get(uuid)

    def use(self, uuid: str) -> dict[int, float]:
        """Percent of a GPU that each process used lately, by pid."""
        return self._busy.get(uuid, {})

    def refresh(self, cards: Sequence[tuple[str, Any]], now: float) -> None:
        """Read the next one of these GPUs, UUID and handle each, at `now` (unix seconds)."""
        opened = [(uuid, handle) for uuid, handle in cards if handle is not None]
        if not opened:
            return
        uuid, handle = opened[self._turn % len(opened)]
        self._turn += 1
        try:
            self._known[uuid] = self._read(uuid, handle, now)
            self._busy[uuid] = self._processes(uuid, handle)
        except LostGpu:
            self._known.pop(uuid, None)
            self._busy.pop(uuid, None)

    def _read(self, uuid: str, handle: Any, now: float) -> GpuDetail:
        fan = number(ask("nvmlDeviceGetFanSpeed", handle))
        state = ask("nvmlDeviceGetPerformanceState", handle)
        mode = ask("nvmlDeviceGetComputeMode", handle)
        rows = ask("nvmlDeviceGetRemappedRows", handle) or (None, None, None, None)
        remapped = [count for count in rows[:2] if count is not None]
        corrected = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC
        fields = _fields(handle)
        link = self._link_rate(uuid, fields, now)
        return GpuDetail(
            fan_percent=None if fan is None else float(fan),
            state=None if state is None or state >= _UNKNOWN_STATE else f"P{state}",
            memory_c=fields.get(_MEMORY_HEAT),
            pcie_generation=number(ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)),
            pcie_width=number(ask("nvmlDeviceGetCurrPcieLinkWidth", handle)),
            pcie_most_generation=number(ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)),
            pcie_most_width=number(ask("nvmlDeviceGetMaxPcieLinkWidth", handle)),
            pcie_bytes_s=_pcie_rate(handle),
            link="NVLink" if _LINK_SENT in fields else None,
            link_bytes_s=link,
            ecc_corrected=number(ask("nvmlDeviceGetTotalEccErrors", handle, *corrected)),
            rows_remapped=sum(remapped) if remapped else None,
            rows_pending=None if rows[2] is None else bool(rows[2]),
            rows_failed=None if rows[3] is None else bool(rows[3]),
            compute_mode=_COMPUTE_MODES[mode] if mode in range(len(_COMPUTE_MODES)) else None,
        )

    def _link_rate(self, uuid: str, fields: dict[int, float], now: float) -> float | None:
        """Bytes per second over all links since this GPU's last turn, by its counters."""
        if _LINK_SENT not in fields or _LINK_RECEIVED not in fields:
            return None
        count = int(fields[_LINK_SENT] + fields[_LINK_RECEIVED])
        before = self._links.get(uuid)
        self._links[uuid] = now, count
        if before is None or count < before[1] or now <= before[0]:
            return None
        return (count - before[1]) * _KIB / (now - before[0])

    def _processes(self, uuid: str, handle: Any) -> dict[int, float]:
        """Mean use of the multiprocessors by each process since this GPU's last turn."""
        samples = ask("nvmlDeviceGetProcessUtilization", handle, self._seen.get(uuid, 0)) or ()
        found: dict[int, list[int]] = {}
        for sample in samples:
            if sample.pid and sample.smUtil <= 100:
                found.setdefault(sample.pid, []).append(sample.smUtil)
                self._seen[uuid] = max(self._seen.get(uuid, 0), sample.timeStamp)
        return {pid: sum(values) / len(values) for pid, values in found.items()}


def _pcie_rate(handle: Any) -> float | None:
    rates = [number(ask("nvmlDeviceGetPcieThroughput", handle, way)) for way in (_SENT, _RECEIVED)]
    known = [rate for rate in rates if rate is not None]
    return sum(known) * 1000.0 if len(known) == len(rates) else None


def _fields(handle: Any) -> dict[int, float]:
    """The fields that this GPU has, by number."""
    wanted = [_MEMORY_HEAT, (_LINK_SENT, _ALL_LINKS), (_LINK_RECEIVED, _ALL_LINKS)]
    found: dict[int, float] = {}
    for field in ask("nvmlDeviceGetFieldValues", handle, wanted) or ():
        if field.nvmlReturn == pynvml.NVML_SUCCESS:
            value = _value(field)
            if value is not None:
                found[field.fieldId] = value
    return found


def _value(field: Any) -> float | None:
    """A field's number by its type; None for NVML's marks of an unknown one."""
    kinds = {
        pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    }
    name = kinds.get(field.valueType)
    value = None if name is None else number(getattr(field.value, name))
    return None if value is None else float(value)
