"""Stopping between two steps: on `$FRESNEL_RUN_DIR/stop.json`, SIGINT or SIGTERM, agreed by all ranks."""

from __future__ import annotations

import signal
from types import FrameType

import torch

from trainers.common.ranks import sum_over_ranks
from trainers.common.report import run_directory


class StopRequest:
    """Remembers that somebody wants this run to end after the step it is in."""

    def __init__(self) -> None:
        directory = run_directory()
        self._file = directory / "stop.json" if directory else None
        self._signalled = False

    def listen(self) -> None:
        """Take SIGINT and SIGTERM as requests; a second SIGINT raises KeyboardInterrupt at once."""
        signal.signal(signal.SIGINT, self._receive)
        signal.signal(signal.SIGTERM, self._receive)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._signalled = True
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def asked(self) -> bool:
        """Return whether this process has been asked, by signal or by file."""
        if not self._signalled and self._file is not None:
            self._signalled = self._file.exists()
        return self._signalled

    def agreed(self, device: torch.device) -> bool:
        """Return whether any rank has been asked; all ranks must call this equally often."""
        return sum_over_ranks([float(self.asked())], device)[0] > 0


def ignore_stop_signals(_worker: int = 0) -> None:
    """Make a data-loading process outlive a signal meant for the whole process group, as its trainer does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
