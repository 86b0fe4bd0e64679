"""What somebody should know of a run before it ends: the alerts that its supervisor and others
wrote beside it.
"""

from pathlib import Path

import msgspec

from runners.host.tail import Follower

_MOST_BYTES = 64 * 1024
_KEPT = 20


class Alert(msgspec.Struct, frozen=True):
    """One alert: when (unix seconds), and what, in words."""

    time: float
    text: str


class _Line(msgspec.Struct):
    time: float
    type: str
    text: str = ""


_line = msgspec.json.Decoder(_Line)


class AlertStream:
    """The alerts of one run, followed; `poll` costs little when nothing is new."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self.alerts: tuple[Alert, ...] = ()

    def poll(self) -> None:
        """Take in what was appended since the last call; of a long file, its end."""
        news = self._follower.poll(_MOST_BYTES, jump=True)
        if news.restarted:
            self.alerts = ()
        for text in news.lines:
            try:
                line = _line.decode(text)
            except msgspec.DecodeError:
                continue
            if line.type == "alert":
                self.alerts = (*self.alerts, Alert(line.time, line.text))[-_KEPT:]
