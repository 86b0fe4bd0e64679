"""NVIDIA GPUs by `pynvml` (nvidia-ml-py): an unsupported field is None, a lost GPU only its row."""

import ctypes
from typing import Any

import msgspec
import pynvml

from runners.gpus.backends.backend import DriverTrouble, NoDriver
from runners.gpus.backends.gpu_processes import ProcessTable
from runners.gpus.backends.nvml_calls import (
    LOST,
    NO_GPU,
    LostGpu,
    ask,
    number,
    problem_text,
    throttle_reasons,
)
from runners.gpus.backends.nvml_details import NvmlDetails
from runners.gpus.backends.nvml_events import XidEvents
from runners.gpus.backends.nvml_processes import ProcessLists
from runners.gpus.driver_setting import Choice
from runners.model.gpus import GpuProcess, GpuSnapshot
from runners.state.layout import StateDirectory


class _Card(msgspec.Struct):
    """A GPU as first seen; `handle` is None while NVML gives none for its index."""

    handle: Any
    row: GpuSnapshot


def open_backend(choice: Choice, state: StateDirectory) -> "Nvml":
    """Initialise NVML. Raises NoDriver without the library, DriverTrouble when it does not work."""
    return Nvml()


def _library_problem() -> str:
    """Why NVML's library is not loaded: it is not there, or the linker refuses it."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        # Of a library that it needs itself the same is said, by that one's name.
        if not str(error).startswith("libnvidia-ml.so.1: cannot open shared object file"):
            return f"NVML: libnvidia-ml.so.1 cannot be loaded: {error}"
    return (
        "NVML: libnvidia-ml.so.1 is not found: install the NVIDIA driver, or start the container "
        "with its GPUs"
    )


class Nvml:
    """All NVIDIA GPUs of this host, MIG instances as rows after the GPU they are part of."""

    name = "nvml"

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
            if pynvml.nvmlDeviceGetCount() == 0:
                raise DriverTrouble(NO_GPU, loaded=False)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise NoDriver(_library_problem()) from None
            loaded = error.value != pynvml.NVML_ERROR_DRIVER_NOT_LOADED
            raise DriverTrouble(problem_text(error.value, str(error)), loaded) from None
        self.problem: str | None = None
        self.driver: str | None = ask("nvmlSystemGetDriverVersion")
        self._processes = ProcessTable(devices="/dev/nvidia")
        self._lists = ProcessLists()
        self._events = XidEvents()
        self._details = NvmlDetails()
        self._cards: list[_Card] = []

    def snapshots(self, now: float) -> tuple[GpuSnapshot, ...]:
        """Read every GPU; `problem` is set when NVML as a whole has stopped working."""
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.problem = problem_text(error.value, str(error))
            return ()
        self.problem = None if count else NO_GPU
        # Handles and names stay as they are until a card comes or goes; each costs a driver call.
        if count != len(self._cards):
            self._cards = [_find(index) for index in range(count)]
        self._details.refresh([(card.row.uuid, card.handle) for card in self._cards], now)
        rows = [row for index in range(count) for row in self._read(index)]
        xids = self._events.take(now)
        return tuple(
            msgspec.structs.replace(row, xid=xids[row.uuid]) if row.uuid in xids else row
            for row in rows
        )

    def _read(self, index: int) -> list[GpuSnapshot]:
        # A GPU that could not be opened is tried again at each reading: it may have been reset.
        if self._cards[index].handle is None:
            self._cards[index] = _find(index)
        card = self._cards[index]
        if card.handle is None:
            return [card.row]
        self._events.register(card.handle, card.row.uuid)
        try:
            mig = _mig_enabled(card.handle)
            # MIG mode first: with it, NVML refuses the utilisation of the whole GPU.
            rows = [self._measure(card, mig)]
            return rows + (self._instances(card) if mig else [])
        except LostGpu as lost:
            return [msgspec.structs.replace(card.row, error=str(lost))]

    def _measure(self, card: _Card, mig: bool) -> GpuSnapshot:
        handle = card.handle
        busy = None if mig else ask("nvmlDeviceGetUtilizationRates", handle)
        used, total = _memory(handle)
        temperature = number(ask("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU))
        return msgspec.structs.replace(
            card.row,
            utilization=_percent(busy.gpu) if busy else None,
            memory_utilization=_percent(busy.memory) if busy else None,
            memory_used=used,
            memory_total=total,
            temperature_c=None if temperature is None else float(temperature),
            power_w=_thousandth(ask("nvmlDeviceGetPowerUsage", handle)),
            power_limit_w=_thousandth(ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
            clock_mhz=number(ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM)),
            memory_clock_mhz=number(ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM)),
            throttle=_throttle(handle),
            ecc_errors=_ecc_errors(handle),
            processes=self._processes_on(handle, card.row.uuid),
            energy_j=_thousandth(ask("nvmlDeviceGetTotalEnergyConsumption", handle)),
            detail=self._details.of(card.row.uuid),
        )

    def _instances(self, card: _Card) -> list[GpuSnapshot]:
        """The MIG instances of one GPU; NVML measures no utilisation for them, so it is None."""
        rows = []
        for position in range(ask("nvmlDeviceGetMaxMigDeviceCount", card.handle) or 0):
            handle = ask("nvmlDeviceGetMigDeviceHandleByIndex", card.handle, position)
            uuid = ask("nvmlDeviceGetUUID", handle) if handle else None
            # The count is that of possible instances, so there are gaps.
            if uuid is None:
                continue
            used, total = _memory(handle)
            rows.append(
                GpuSnapshot(
                    index=card.row.index,
                    uuid=uuid,
                    name=ask("nvmlDeviceGetName", handle) or f"{card.row.name} MIG",
                    vendor="nvidia",
                    pci=card.row.pci,
                    memory_used=used,
                    memory_total=total,
                    mig_parent=card.row.uuid,
                    processes=self._processes_on(handle),
                )
            )
        return rows

    def _processes_on(self, handle: Any, uuid: str = "") -> tuple[GpuProcess, ...]:
        memory: dict[int, int | None] = {}
        try:
            lines = self._lists.on(handle)
        except pynvml.NVMLError as error:
            raise LostGpu(LOST[error.value]) from None
        # A process may be in the compute and the graphics list: the same memory, counted once.
        for pid, written in lines:
            used = number(written)
            known = memory.get(pid)
            memory[pid] = used if known is None else max(known, used or 0)
        busy = self._details.use(uuid)
        found = (self._processes.describe(pid, used) for pid, used in memory.items())
        return tuple(
            msgspec.structs.replace(process, utilization=busy.get(process.pid)) for process in found
        )


def _find(index: int) -> _Card:
    """The GPU at NVML's `index`, with all of it that never changes."""
    blank = GpuSnapshot(index=index, uuid=f"lost-{index}", name="unknown GPU", vendor="nvidia")
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = ask("nvmlDeviceGetUUID", handle) or blank.uuid
        name = ask("nvmlDeviceGetName", handle) or blank.name
        return _Card(handle, msgspec.structs.replace(blank, uuid=uuid, name=name, pci=_pci(handle)))
    except pynvml.NVMLError as error:
        text = LOST.get(error.value) or f"GPU cannot be opened: {error}"
    except LostGpu as lost:
        text = str(lost)
    return _Card(None, msgspec.structs.replace(blank, error=text))


def _percent(value: int) -> float | None:
    return float(value) if value <= 100 else None


def _thousandth(value: int | None) -> float | None:
    """Watts of milliwatts, joules of millijoules."""
    known = number(value)
    return None if known is None else known / 1000


def _pci(handle: Any) -> str | None:
    """The address as sysfs and CUDA write it, 0000:17:00.0; NVML's own has a domain of 8 digits."""
    place = ask("nvmlDeviceGetPciInfo", handle)
    return f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0" if place else None


def _memory(handle: Any) -> tuple[int | None, int | None]:
    """Used and total bytes; version 2 leaves out the driver's own, unified memory has no total."""
    memory = ask("nvmlDeviceGetMemoryInfo", handle, version=pynvml.nvmlMemory_v2)
    memory = memory or ask("nvmlDeviceGetMemoryInfo", handle)
    if memory is None:
        return None, None
    total = number(memory.total) or None
    # Unified memory reports zeros: a used of 0 without a total is unknown, not empty.
    return (number(memory.used) if total or memory.used else None), total


def _throttle(handle: Any) -> tuple[str, ...]:
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return throttle_reasons(ask(names, handle) or 0)


def _ecc_errors(handle: Any) -> int | None:
    """Uncorrected errors since the driver was loaded."""
    kind, since = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    return number(ask("nvmlDeviceGetTotalEccErrors", handle, kind, since))


def _mig_enabled(handle: Any) -> bool:
    modes = ask("nvmlDeviceGetMigMode", handle)
    # The first mode is the current one, the second what the next reset brings.
    return bool(modes) and modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE
