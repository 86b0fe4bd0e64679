"""The run's lines, in the grammar of the original's log, and its TensorBoard names."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from typing import Any, Protocol

from trainers.common.boards import TensorBoardFiles
from trainers.common.logged import LoggedReporter


class Counted(Protocol):
    """The parts of a run's position that its lines name."""

    epoch: int
    it: int


class VoxelReporter(LoggedReporter):
    """A Reporter whose lines go to train.log too, and scalars to tensorboard_log/."""

    def __init__(self, *details: Any, **more: Any) -> None:
        super().__init__(*details, tensorboard=False, **more)
        self._files: TensorBoardFiles | None = None
        self._begun = time.monotonic()

    def open_boards(self, wanted: bool, step: int) -> None:
        """Open tensorboard_log/ where it is wanted and tensorboardX installed."""
        if not (wanted and self.ranks.leads):
            return
        if not importlib.util.find_spec("tensorboardX"):
            self.write("tensorboard  no files: pip install tensorboardX")
            return
        self._files = TensorBoardFiles(self.folder / "tensorboard_log", step)

    def train_step(self, position: Counted, values: Mapping[str, float], always: bool) -> None:
        """Report a step whose values are those of finished step `position.it`."""
        reported = self.step(position.epoch + 1, position.it, values, always)
        if reported and self._files:
            # The original's `train/psr` would be the loss once more.
            named = {"loss": "loss", "learning_rate": "lr"}
            scalars = {f"train/{named[name]}": values[name] for name in named}
            self._files.values(position.it, scalars)

    def step_line(self, position: Counted, loss: float, seconds: float) -> None:
        """Print a step in the original's form; epochs and iterations count from 0 there."""
        self.write(
            f"[Epoch {position.epoch:02d}] it={position.it - 1}, loss={loss:.4f}"
            f" loss_psr={loss:.4f} time={seconds:.3f} / {time.monotonic() - self._begun:.2f}"
        )

    def validation_lines(
        self, scores: Mapping[str, float], baseline: Mapping[str, float], metric: str
    ) -> None:
        """Print every score beside the mean volume's, and which of them decides."""
        for name, value in scores.items():
            better = value > baseline[name] if name == "psr_iou" else value < baseline[name]
            verdict = "" if better else "  (no better than the mean volume)"
            self.write(f"  {name}: {value:.6f}   mean volume {baseline[name]:.6f}{verdict}")
        self.write(f"Validation metric ({metric}): {scores[metric]:.6f}")

    def epoch(self, epoch: int, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Report an epoch; validation scores go to TensorBoard under the original's names."""
        super().epoch(epoch, step, seconds, values)
        scores = {name: value for name, value in values.items() if name.startswith("val/")}
        if self._files and scores:
            self._files.values(step, scores)

    def finish(self, values: Mapping[str, float] | None = None) -> None:
        """Close everything."""
        super().finish(values)
        if self._files:
            self._files.close()
