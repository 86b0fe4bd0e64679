"""A run's output on another machine, byte for byte, and as a file which the log pane shows.

After a break it is taken up from where it broke.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runners.model.run_ids import is_run_id
from runners.places.ssh.connection import RefusedThere, refuse
from runners.places.ssh.frames import OutputFrame, decoded
from runners.places.ssh.protocol import LinkMessage

FIRST = 512 << 10
"""Bytes before the end with which a log begins; what is before stays over there."""

MOST = 256 << 10
WINDOW = 128 << 10
"""So much at once, and on the way: a slow line shows what is newest, never what is long past."""

_KEPT = 256 << 20
"""A file that grew so long begins anew: all of it is over there."""


class RemoteOutput:
    """A subscription to a run's output. `write(data, skipped, restarted)` takes what comes:
    in order, nothing twice, nothing left out but what is said to be `skipped`.
    """

    def __init__(
        self,
        run: str,
        write: Callable[[bytes, int, bool], None],
        at: int = 0,
        most: int | None = None,
        window: int = 1 << 20,
        lines: int | None = None,
    ) -> None:
        self.run = run
        self.ended = False
        self.is_rewritten = False
        """Whether what came last replaces what the same file had before."""
        self._write = write
        self._at = at
        self._inode: int | None = None
        self._most = most
        self._window = window
        self._lines = lines

    def request(self) -> dict[str, Any]:
        """Everything from the place where it stands."""
        asked: dict[str, Any] = {
            "do": "follow",
            "run": self.run,
            "file": "output.log",
            "at": self._at,
            "window": self._window,
        }
        if self._inode is not None:
            asked["inode"] = self._inode
        elif self._lines is not None:
            asked["lines"] = self._lines
        if self._most is not None:
            asked["most"] = self._most
        return asked

    def take(self, frame: LinkMessage) -> int:
        """Pass on what is new."""
        refuse(frame)
        piece = decoded(frame.fields, OutputFrame)
        if piece.run is not None:
            if not is_run_id(piece.run):
                raise ValueError("the output of what is no run")
            self.run = piece.run  # `last` means the same run after a break
        self.ended = self.ended or piece.ended
        if not frame.payload and not piece.skipped:
            return 0
        if piece.inode is None:
            raise ValueError("output of no file")
        restarted = self._inode is not None and (piece.inode != self._inode or piece.at < self._at)
        self.is_rewritten = self._inode == piece.inode and piece.at < self._at
        self._write(frame.payload, piece.skipped, restarted)
        self._inode, self._at = piece.inode, piece.at + len(frame.payload)
        return len(frame.payload)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and all was taken."""
        return self.ended


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
