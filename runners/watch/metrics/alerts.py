"""Alerts of a run, written by its supervisor and others while it runs."""

from pathlib import Path

import msgspec

from runners.host.tail import Follower
from runners.state.decoding import decode_lines

_MOST_BYTES = 64 * 1024
_KEPT = 20


class Alert(msgspec.Struct, frozen=True):
    """An alert: unix seconds, text, and the condition that the live judge found, else empty."""

    time: float
    text: str
    condition: str = ""


class _Line(msgspec.Struct):
    time: float
    type: str
    text: str = ""
    condition: str = ""


class AlertStream:
    """The alerts of one run, followed; `poll` costs little when nothing is new."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self.alerts: tuple[Alert, ...] = ()
        self._paused: float | None = None
        self._pauses: list[tuple[float, float]] = []

    def take_pauses(self) -> list[tuple[float, float]]:
        """The pauses that are over and were not taken before: when each began, and its seconds."""
        found, self._pauses = self._pauses, []
        return found

    def poll(self) -> None:
        """Read what was appended since the last call; of a long file, its end."""
        news = self._follower.poll(_MOST_BYTES, jump=True)
        if news.restarted:
            self.alerts = ()
        for line in decode_lines(news.lines, _Line):
            if line.type == "pause":
                self._paused = line.time
            elif line.type == "continue" and self._paused is not None:
                self._pauses.append((self._paused, line.time - self._paused))
                self._paused = None
            elif line.type == "alert":
                # Only the newest are shown, and a run in trouble may write thousands.
                self.alerts = (*self.alerts, Alert(line.time, line.text, line.condition))[-_KEPT:]
