"""TensorBoard and Weights & Biases, each only where it is installed and wanted."""

from __future__ import annotations

import importlib.util
import netrc
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainers.common.errors import SettingsError
from trainers.common.report import Throttle
from trainers.common.settings_parser import plain

FLUSHED_EVERY = 10.0
"""Seconds after which TensorBoard sees what was written."""


class TensorBoardFiles:
    """Scalars and pictures for TensorBoard, in tensorboardX's format; a full disk is told once.

    Its own writer is not used: a thread of it dies of a full disk, and the run then waits for ever
    for room in its queue.
    """

    def __init__(self, folder: Path, from_step: int = 0) -> None:
        from tensorboardX import proto, summary  # type: ignore[import-untyped]
        from tensorboardX.event_file_writer import EventsWriter  # type: ignore[import-untyped]

        self._event, self._summary = proto.event_pb2.Event, summary
        folder.mkdir(parents=True, exist_ok=True)
        self._file: Any = EventsWriter(str(folder / "events"))
        self._flush = Throttle(FLUSHED_EVERY)
        if from_step:
            # Steps that an interrupted attempt wrote after its last checkpoint are hidden.
            begun = proto.event_pb2.SessionLog(status=proto.event_pb2.SessionLog.START)
            self._write(step=from_step, session_log=begun)

    def values(self, step: int, values: Mapping[str, float]) -> None:
        """Write every value as a scalar."""
        for name, value in values.items():
            self._write(step=step, summary=self._summary.scalar(name, value))

    def image(self, step: int, path: Path, caption: str) -> None:
        """Write a PNG as a picture."""
        import numpy as np
        from PIL import Image

        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        self._write(step=step, summary=self._summary.image(caption, pixels, dataformats="HWC"))

    def close(self) -> None:
        """Write what is left."""
        self._guarded("close")

    def _write(self, **fields: Any) -> None:
        self._guarded("write_event", self._event(wall_time=time.time(), **fields))
        if self._flush.due():
            self._guarded("flush")

    def _guarded(self, action: str, *given: Any) -> None:
        if self._file is None:
            return
        try:
            getattr(self._file, action)(*given)
        except OSError as problem:
            print(f"warning: TensorBoard's files are no longer written: {problem}",
                  file=sys.stderr)  # fmt: skip
            self._file = None


def require_wandb(project: str) -> None:
    """Raise SettingsError where wandb is not installed."""
    if importlib.util.find_spec("wandb") is None:
        raise SettingsError(
            f"--wandb {project}: wandb is not installed; pip install wandb, or do without --wandb"
        )


class WandbRun:
    """One run of Weights & Biases; offline unless a key is there or WANDB_MODE says otherwise."""

    def __init__(self, project: str, name: str, folder: Path, settings: Mapping[str, Any]) -> None:
        import wandb

        # Without a key wandb asks for one on the terminal, where a run under a panel has nobody.
        mode: Any = os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")
        self.mode = str(mode)
        self._run = wandb.init(
            project=project, name=os.environ.get("WANDB_NAME") or name, dir=str(folder), mode=mode,
            config=plain(settings),
            settings=wandb.Settings(silent=True, console="off"),
        )  # fmt: skip
        self._wandb = wandb
        self.folder = Path(self._run.dir).parent

    def values(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values at a step."""
        self._run.log(dict(values), step=step)

    def image(self, step: int, path: Path, caption: str) -> None:
        """Log a PNG."""
        self._run.log({caption: self._wandb.Image(str(path))}, step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (OSError, netrc.NetrcParseError):
        return False
