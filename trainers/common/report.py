"""Events for a control panel: JSON lines appended to `$FRESNEL_RUN_DIR/events.jsonl`."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

from trainers.common.files import LineFile

RUN_DIRECTORY = "FRESNEL_RUN_DIR"


def run_directory() -> Path | None:
    """Return the folder `$FRESNEL_RUN_DIR` names, made absolute; None where unset or empty."""
    named = os.environ.get(RUN_DIRECTORY)
    return Path(named).absolute() if named else None


def finite(value: Any) -> Any:
    """Return value with every non-finite float replaced by None, since JSON has no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, Path) else value


class EventLog:
    """Appends events to `directory/events.jsonl`, one write each; or nowhere if it is None."""

    def __init__(self, directory: Path | None) -> None:
        self._file = None if directory is None else LineFile(directory / "events.jsonl")

    def emit(self, kind: str, **fields: Any) -> None:
        """Append one event with the time in unix seconds, where there is room."""
        if self._file is not None:
            event = {"time": time.time(), "type": kind, **finite(fields)}
            self._file.write(json.dumps(event, allow_nan=False, ensure_ascii=False))

    def close(self) -> None:
        """Close the file; later events go nowhere."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Throttle:
    """Says when `seconds` have passed since it last said so, or since it was made."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        """Return True and start waiting anew once the time is over."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return False
        self._last = now
        return True
