"""Xid errors from NVML's events, each reported once to whoever registered; needs no rights."""

from contextlib import suppress
from ctypes import c_void_p, cast
from typing import Any

import pynvml

from runners.gpus.backends.xid_names import xid_meaning
from runners.model.gpus import Xid

_MOST_AT_ONCE = 64
"""At most so many events per reading: a burst of them must not use up its time."""
_CONSEQUENCES = (45, 154)
"""Xids that follow the error that caused them: within `_BURST_S` they do not replace it."""
_BURST_S = 60.0


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
