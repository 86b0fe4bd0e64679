"""A run's output over there, taken up byte for byte: after a break from where it broke."""

from collections.abc import Callable
from typing import Any

from runners.model.run_ids import is_run_id
from runners.places.ssh.connection import refuse
from runners.places.ssh.frames import OutputFrame, decoded
from runners.places.ssh.protocol import LinkMessage


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
        if not frame.payload:
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
