"""A run's output on another machine as a file here, which the log pane shows like any other."""

import os
import threading
from pathlib import Path

from runners.places.ssh.connection import RefusedThere
from runners.places.ssh.frames import OutputFrame, decoded
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.remote_log import RemoteOutput

FIRST = 512 << 10
"""Bytes before the end with which a log begins; what is before stays over there."""

MOST = 256 << 10
WINDOW = 128 << 10
"""So much at once, and on the way: a slow line shows what is newest, never what is long past."""

_KEPT = 256 << 20
"""A file that grew so long begins anew: all of it is over there."""


class MirroredLog:
    """A subscription that writes what it gets into a file. A machine whose output is faster than
    its line has gaps in it, each said in its place.
    """

    def __init__(self, path: Path, run: str, host: str) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._all_of_it = f"fresnel-tui logs {run} --host {host}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        self._lock = threading.Lock()
        self._begun = False
        self._length = 0
        self._output = RemoteOutput(run, self._write, at=-FIRST, most=MOST, window=WINDOW)

    def request(self) -> dict[str, object]:
        """What to ask for after a break."""
        return self._output.request()

    def take(self, frame: LinkMessage) -> int:
        """Take in a piece; one that is still on its way when the log is closed is passed over."""
        with self._lock:
            try:
                return 0 if self._file < 0 else self._take(frame)
            except OSError:  # a full disk here: what comes when there is room again is shown
                return len(frame.payload)

    def _take(self, frame: LinkMessage) -> int:
        at = decoded(frame.fields, OutputFrame).at
        if not self._begun and at > 0:
            self._note(f"… {at:,} earlier bytes are on the machine: {self._all_of_it}")
        self._begun = self._begun or bool(frame.payload)
        try:
            return self._output.take(frame)
        except RefusedThere as error:
            self._note(str(error))
            return 0

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and all was taken."""
        return self._output.is_over

    def close(self) -> None:
        """Nothing more is written."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _write(self, data: bytes, skipped: int, restarted: bool) -> None:
        if restarted:
            self._empty()
            if self._output.is_rewritten:
                self._note("… the file was rewritten on the machine: it starts again here")
        elif self._length > _KEPT:
            self._empty()
            self._note(f"… earlier output is on the machine: {self._all_of_it}")
        if skipped:
            self._note(f"… {skipped:,} bytes were too many for the connection: {self._all_of_it}")
        self._length += os.write(self._file, data)

    def _empty(self) -> None:
        os.ftruncate(self._file, 0)
        self._length = 0

    def _note(self, text: str) -> None:
        os.write(self._file, f"\x1b[2m{text}\x1b[0m\n".encode())
