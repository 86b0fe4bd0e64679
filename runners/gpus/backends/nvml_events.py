"""Xid errors from NVML's events, each reported once to whoever registered; needs no rights.

Their names: docs.nvidia.com/deploy/xid-errors.
"""

from contextlib import suppress
from ctypes import c_void_p, cast
from typing import Any

import pynvml

from runners.model.gpus import Xid

_MOST_AT_ONCE = 64
"""At most so many events per reading: a burst of them must not use up its time."""
_CONSEQUENCES = (45, 154)
"""Xids that follow the error that caused them: within `_BURST_S` they do not replace it."""
_BURST_S = 60.0
_MEANINGS = {
    8: "the GPU stopped processing: restart the run",
    13: "engine exception: most often the program reads or writes out of bounds",
    31: "memory page fault: most often the program touches memory that is not its own",
    32: "corrupted command stream: the program, the driver or the PCIe link",
    38: "driver firmware error",
    43: "the GPU stopped working for one program: most often the program's own fault",
    45: "a program was cleaned away after an earlier error",
    46: "the GPU stopped processing: reset it",
    48: "double bit ECC error: reset the GPU",
    61: "internal micro-controller breakpoint: reset the GPU",
    62: "internal micro-controller halt: reset the GPU",
    63: "a failing memory row is remapped: reset the GPU when it is idle",
    64: "a failing memory row could not be remapped: reset the GPU, have it replaced",
    68: "video processor exception",
    69: "engine class error: the program or the driver",
    74: "NVLink error: reset the GPU; if it comes back, the link or board is broken",
    78: "vGPU could not start",
    79: "fell off the bus: reboot; look at power, heat and the slot",
    92: "many single bit ECC errors: watch it",
    94: "contained memory error: only the program that met it must restart",
    95: "uncontained memory error: reset the GPU",
    109: "context switch timeout: restart the run",
    110: "security fault: reboot",
    119: "the GPU's system processor (GSP) does not answer: reset the GPU",
    120: "error of the GPU's system processor (GSP): reset the GPU",
    121: "errors on the chip-to-chip link, corrected",
    136: "link training failed",
    137: "NVLink privilege error: most often the program",
    140: "memory error that was not corrected: reset the GPU",
    143: "the GPU could not be initialised",
    154: "the driver asks for a recovery: a reset or a reboot, see dmesg",
}


class XidEvents:
    """The newest Xid of every GPU since this was made, by UUID."""

    def __init__(self) -> None:
        self._events: Any = None
        self._uuids: dict[int | None, str] = {}
        self._newest: dict[str, Xid] = {}
        with suppress(pynvml.NVMLError, AttributeError):
            self._events = pynvml.nvmlEventSetCreate()

    def register(self, handle: Any, uuid: str) -> None:
        """Have the GPU at `handle` report its errors from now on; a second time does nothing."""
        # The handle's own value, because each call of pynvml makes a new object for one GPU.
        place = cast(handle, c_void_p).value
        if self._events is None or place in self._uuids:
            return
        self._uuids[place] = uuid
        with suppress(pynvml.NVMLError, AttributeError):
            pynvml.nvmlDeviceRegisterEvents(
                handle, pynvml.nvmlEventTypeXidCriticalError, self._events
            )

    def take(self, now: float) -> dict[str, Xid]:
        """Every GPU's newest Xid, if any; those that came just now get the time `now` (unix s)."""
        for _ in range(_MOST_AT_ONCE if self._events is not None else 0):
            try:
                # A wait of 0 ms: the reading has a deadline.
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except (pynvml.NVMLError, AttributeError):  # no more of them, or a lost GPU in the set
                break
            uuid = self._uuid_of(event.device)
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError and uuid is not None:
                self._note(uuid, Xid(event.eventData, now, xid_meaning(event.eventData)))
        return self._newest

    def _note(self, uuid: str, xid: Xid) -> None:
        known = self._newest.get(uuid)
        if known is None or xid.code not in _CONSEQUENCES or xid.time - known.time > _BURST_S:
            self._newest[uuid] = xid

    def _uuid_of(self, handle: Any) -> str | None:
        known = self._uuids.get(cast(handle, c_void_p).value)
        if known is None:
            with suppress(pynvml.NVMLError):
                return str(pynvml.nvmlDeviceGetUUID(handle))
        return known


def xid_meaning(code: int) -> str:
    """What Xid `code` means, in a few words; unknown ones point to the kernel's log."""
    return _MEANINGS.get(code, "see NVIDIA's Xid catalogue and dmesg")
