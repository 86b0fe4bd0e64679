"""What a run tells: lines, events, TensorBoard, wandb, history.json, curves.png, in one place."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.common.arithmetic import describe_arithmetic
from trainers.common.boards import TensorBoardFiles, WandbRun, require_wandb
from trainers.common.devices import describe_device
from trainers.common.history import HISTORY_NAME, RunHistory
from trainers.common.meters import GAUGES
from trainers.common.ranks import Ranks
from trainers.common.report import EventLog, Throttle, run_directory
from trainers.common.schedules import steps_taken
from trainers.common.settings_parser import plain

PHASES = ("loading", "compiling", "warming up", "training", "validating", "saving")


class Reporter:
    """Tells on rank 0 what the run does; on other ranks every method does nothing.

    `folder` takes history.json, curves.png and, in board_folder, TensorBoard's files. Events go to
    `$FRESNEL_RUN_DIR/events.jsonl`. Raises SettingsError where wandb is wanted and not installed.
    """

    def __init__(
        self,
        ranks: Ranks,
        folder: Path,
        trainer: str,
        settings: Mapping[str, Any],
        tensorboard: bool = True,
        wandb: str | None = None,
        board_folder: str = "tensorboard",
    ) -> None:
        self.ranks, self.folder, self.trainer = ranks, folder.absolute(), trainer
        self.settings = plain(settings)
        self._board_folder = self.folder / board_folder
        self.history = RunHistory(self.folder, trainer)
        self.events = EventLog(run_directory() if ranks.leads else None)
        self._tensorboard, self._wandb = tensorboard and ranks.leads, wandb if ranks.leads else None
        if self._wandb:
            require_wandb(self._wandb)
        self._boards: list[TensorBoardFiles | WandbRun] = []
        self._measure, self._draw = Throttle(0.5), Throttle(30.0)
        self._phase = ""
        self._recounted = 0, 0
        self.stage = ""
        """Which part of a training that has several, such as `stage 2/3`; events say it too."""
        self._stepped: set[str] = set()

    def write(self, line: str) -> None:
        """Print a line at once."""
        if self.ranks.leads:
            print(line)

    def warn(self, text: str) -> None:
        """Print a warning on stderr and report it as an alert."""
        if self.ranks.leads:
            print(f"warning: {text}", file=sys.stderr)
            self.events.emit("alert", text=text)

    def phase(self, name: str, text: str = "") -> None:
        """Report what begins, one of PHASES; the same again is told once. A text is printed too."""
        if name not in PHASES:
            raise ValueError(f"phase {name!r} is none of {', '.join(PHASES)}")
        if name != self._phase:
            self._phase = name
            self.events.emit("phase", phase=name, text=text, **self._staged())
        if text:
            self.write(f"{name:<12} {text}")

    def recount(
        self, saved: int, epoch: int, used: int, batch: int, steps_per_epoch: int, earlier: int = 0
    ) -> tuple[int, int]:
        """Return steps_taken with `earlier` ones, and say so where a checkpoint's are not as many.

        Called before `start`: the history's steps are counted by this run's batch then, too.
        """
        steps, inside = steps_taken(epoch, used, batch, steps_per_epoch)
        if saved != earlier + steps:
            self._recounted = saved, earlier + steps
            self.warn(
                f"resume: {saved} steps were taken; by this batch and these data they are"
                f" {earlier + steps}: counted anew"
            )
        return earlier + steps, inside

    def start(
        self,
        *,
        found: Mapping[str, Any],
        batch: str,
        rate: str,
        precision: str = "",
        epochs: int,
        steps: int,
        step: int = 0,
        resumed_from: Path | None = None,
    ) -> None:
        """Print what was found, the device, and the batch's and rate's sentences."""
        if not self.ranks.leads:
            return
        device = describe_device(self.ranks.device)
        many = f"{self.ranks.world} x " if self.ranks.world > 1 else ""
        self.write(f"found        {', '.join(f'{name} {value}' for name, value in found.items())}")
        self.write(f"device       {many}{device} ({self.ranks.reason or self.ranks.device})")
        if self.ranks.device.type == "cuda":
            self.write(f"arithmetic   {describe_arithmetic()}")
        if precision:
            self.write(f"precision    {precision}")
        self.write(f"work         {epochs} epochs, {steps} steps; {batch}")
        self.write(f"rate         {rate}")
        self.write(f"output       {self.folder}")
        if resumed_from:
            self.write(f"resume       {resumed_from}, {step} steps done")
            if step >= steps:
                self.write("nothing left to train: all epochs were done before")
            # Checkpoints lie in a run's folder, or in one of their own inside it.
            for folder in (self.folder, resumed_from.parent, resumed_from.parent.parent):
                if not self.history.epochs and not self.history.steps:
                    self.history.go_on(folder, step, self._recounted)
        elif (self.folder / HISTORY_NAME).is_file():
            self.warn(
                f"{self.folder} holds an earlier run, whose files this one replaces as it goes;"
                " --resume auto goes on from it"
            )
        described = {
            **self.settings,
            "device_name": device,
            "world_size": self.ranks.world,
            **plain(found),
        }
        more = {"resumed_from": resumed_from, "step": step} if resumed_from else {}
        self.events.emit("start", epochs=epochs, steps=steps, settings=described, **more)
        self._open_boards(step)

    def _open_boards(self, step: int) -> None:
        if self._tensorboard:
            if importlib.util.find_spec("tensorboardX"):
                self._boards.append(TensorBoardFiles(self._board_folder, step))
                self.write(f"tensorboard  {self._board_folder}")
            else:
                self.write("tensorboard  no files: pip install tensorboardX")
        if self._wandb:
            run = WandbRun(self._wandb, self.folder.name, self.folder, self.settings)
            self._boards.append(run)
            self.write(f"wandb        project {self._wandb}, {run.mode}, {run.folder}")

    def step(
        self, epoch: int, step: int, values: Mapping[str, float], always: bool = False
    ) -> bool:
        """Report a step's values, twice a second at most unless always; return whether it did.

        `epoch` counts from 1, `step` finished steps of the whole run. Any of loss and its parts,
        learning_rate, gradient_norm and `ThroughputMeter.values()`.
        """
        if not self.ranks.leads or not (self._measure.due() or always):
            return False
        self._stepped.update(values)
        self.events.emit("metrics", epoch=epoch, step=step, values=dict(values), **self._staged())
        self.history.note_step(epoch, step, values)
        self._to_boards(step, values)
        return True

    def epoch(self, epoch: int, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Report a whole epoch's values, and write history.json and, every 30 s, curves.png.

        What its last step has reported of speed and memory stands in history.json alone.
        """
        if not self.ranks.leads:
            return
        news = {
            name: value
            for name, value in values.items()
            if name not in GAUGES or name not in self._stepped
        }
        fields = {"epoch": epoch, "step": step, "seconds": seconds, "values": news}
        self.events.emit("epoch", **fields, **self._staged())
        self.history.note_epoch(epoch, step, seconds, values)
        means = {
            f"epoch/{name}" if name in self._stepped else name: value
            for name, value in news.items()
        }
        self._to_boards(step, means)
        self.history.write()
        if self._draw.due():
            self.history.draw(f"{self.trainer}, epoch {epoch}")

    def _staged(self) -> dict[str, str]:
        return {"stage": self.stage} if self.stage else {}

    def checkpoint(
        self, saved: tuple[Path, int] | None, epoch: int, step: int, best: bool = False
    ) -> None:
        """Report what CheckpointFolder.save returned."""
        if saved is None:
            return
        path, size = saved
        self.events.emit("checkpoint", path=path, step=step, epoch=epoch, bytes=size, best=best)
        self.write(f"checkpoint   {path} ({size / 1e6:.1f} MB{', best so far' if best else ''})")

    def image(self, path: Path, caption: str, step: int = 0) -> None:
        """Report a PNG, where there was room to write it."""
        if not (self.ranks.leads and path.is_file()):
            return
        self.events.emit("image", path=path.absolute(), caption=caption)
        for board in self._boards:
            board.image(step, path, caption)

    def finish(self, values: Mapping[str, float] | None = None) -> None:
        """Write the last history and curves, report a summary where values are given, and close."""
        if not self.ranks.leads:
            return
        if self.history.steps or self.history.epochs:
            self.history.write()
            if self.history.draw(self.trainer) is None:
                self.write("curves       no curves.png: pip install matplotlib")
        if values is not None:
            self.events.emit("summary", values=dict(values))
        for board in self._boards:
            board.close()
        self._boards.clear()
        self.events.close()

    def _to_boards(self, step: int, values: Mapping[str, float]) -> None:
        for board in self._boards:
            board.values(step, values)
