"""Events for a control panel: JSON lines appended to `$FRESNEL_RUN_DIR/events.jsonl`."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

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
        self._descriptor: int | None = None
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(directory / "events.jsonl", flags, 0o644)

    def emit(self, kind: str, **fields: Any) -> None:
        """Append one event with the time in unix seconds; a full disk is told once on stderr."""
        if self._descriptor is None:
            return
        event = {"time": time.time(), "type": kind, **finite(fields)}
        line = json.dumps(event, allow_nan=False, ensure_ascii=False) + "\n"
        try:
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))
        except OSError as problem:
            # A run worth hours must not end because its report cannot be written.
            print(f"warning: events are no longer written: {problem}", file=sys.stderr, flush=True)
            self.close()

    def close(self) -> None:
        """Close the file; later events go nowhere."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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
