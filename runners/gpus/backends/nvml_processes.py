"""The processes on one GPU as NVML lists them: compute, graphics and MPS.

Early R535 drivers (535.43 to 535.86) had one field more in the lines of their `_v3` calls under
the same name, and later ones removed it again. Such a driver is recognised by the calls it has;
source: nvitop's pull request 79.
"""

import ctypes
from typing import Any

import pynvml

from runners.gpus.backends.nvml_calls import LOST

_KINDS = ("Compute", "Graphics", "MPSCompute")
_MARGIN = 8
"""Space for processes that start between counting and listing."""


class _WideLine(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("usedGpuMemory", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
        ("usedGpuCcProtectedMemory", ctypes.c_ulonglong),
    )


class ProcessLists:
    """NVML's lists of processes, by the calls that this driver has."""

    def __init__(self) -> None:
        newest = _function("nvmlDeviceGetComputeRunningProcesses_v3") is not None
        # The first call came with the wide lines, the second only after they were gone.
        wide = _function("nvmlDeviceGetConfComputeMemSizeInfo") and not _function(
            "nvmlDeviceGetRunningProcessDetailList"
        )
        self._suffix = "_v3" if newest else "_v2"
        self._wide = newest and bool(wide)

    def on(self, handle: Any) -> list[tuple[int, int | None]]:
        """Pid and bytes, as NVML writes them, of each process. Raises NVMLError for a lost GPU."""
        found: list[tuple[int, int | None]] = []
        for kind in _KINDS:
            name = f"nvmlDeviceGet{kind}RunningProcesses{self._suffix}"
            try:
                lines = _wide_lines(name, handle) if self._wide else getattr(pynvml, name)(handle)
            except pynvml.NVMLError as error:
                if error.value in LOST:
                    raise
                continue
            found += [(line.pid, line.usedGpuMemory) for line in lines]
        return found


def _wide_lines(name: str, handle: Any) -> list[_WideLine]:
    function = _function(name)
    if function is None:
        return []
    count = ctypes.c_uint(0)
    # Asked without a buffer, the call fails with the number of processes.
    code = function(handle, ctypes.byref(count), None)
    if code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
        count.value += _MARGIN
        lines = (_WideLine * count.value)()
        code = function(handle, ctypes.byref(count), lines)
        if code == pynvml.NVML_SUCCESS:
            return list(lines[: count.value])
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)
    return []


def _function(name: str) -> Any:
    """A call of the loaded library, or None when it has none of that name."""
    try:
        return pynvml._nvmlGetFunctionPointer(name)
    except (pynvml.NVMLError, AttributeError):
        return None
