"""The lines of `train.log`, in the grammar of PCDiff's own log, beside everything else reported."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.common.logged import LoggedReporter
from trainers.common.ranks import Ranks


def stamped(line: str) -> str:
    """Return a line as `2026-04-06 06:38:43,991 : line`, in local time."""
    now = time.time()
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"{moment},{int(now % 1 * 1000):03d} : {line}"


def step_line(epoch: int, epochs: int, step: int, steps: int, loss: float, norm: float) -> str:
    """Return the line of a step; epoch and step count from 0."""
    return (
        f"[{epoch:>3d}/{epochs:>3d}][{step:>3d}/{steps:>3d}]    loss: {loss:>10.4f},"
        f"    grad_norm: {norm:>10.4f}"
    )


class RunLog(LoggedReporter):
    """A reporter whose lines carry their time and go to train.log too."""

    def __init__(
        self, ranks: Ranks, folder: Path, settings: Mapping[str, Any], **more: Any
    ) -> None:
        super().__init__(ranks, folder, "pcdiff", settings, **more)

    def write(self, line: str) -> None:
        """Print a line with its time and append it to train.log."""
        super().write(stamped(line))

    def warn(self, text: str) -> None:
        """Report an alert, and keep its words in train.log."""
        super().warn(text)
        self.note(stamped(f"warning: {text}"))
