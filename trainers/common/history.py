"""The run's figures in `history.json` and `curves.png`, both replaced whole."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from trainers.common.files import write_if_room
from trainers.common.report import finite

HISTORY_NAME = "history.json"
MOST_STEPS = 4000
"""Points of the steps' series that are kept; beyond, every second one goes."""


class RunHistory:
    """What a run measured, by step and by epoch, attempts before a resume included."""

    def __init__(self, folder: Path, trainer: str) -> None:
        self.folder, self.trainer = folder, trainer
        self.steps: list[dict[str, Any]] = []
        self.epochs: list[dict[str, Any]] = []

    def go_on(self, folder: Path, step: int, recounted: tuple[int, int] = (0, 0)) -> None:
        """Take over what an earlier attempt's folder tells up to a step, if it tells any.

        `recounted`: how many steps of that attempt are how many of this one's.
        """
        theirs, ours = recounted if all(recounted) else (step, step)
        try:
            before = json.loads((folder / HISTORY_NAME).read_text(encoding="utf-8"))
            self.steps, self.epochs = (
                [
                    {**entry, "step": round(entry["step"] * ours / max(theirs, 1))}
                    for entry in before[name]
                    if entry["step"] <= theirs
                ]
                for name in ("steps", "epochs")
            )
        except (OSError, ValueError, KeyError, TypeError):
            return

    def note_step(self, epoch: int, step: int, values: Mapping[str, float]) -> None:
        """Remember the values of a step."""
        self.steps.append({"epoch": epoch, "step": step, "values": finite(dict(values))})
        if len(self.steps) > MOST_STEPS:
            del self.steps[1:-1:2]

    def note_epoch(
        self, epoch: int, step: int, seconds: float, values: Mapping[str, float]
    ) -> None:
        """Remember the values of a whole epoch."""
        found = {"epoch": epoch, "step": step, "seconds": seconds, "values": finite(dict(values))}
        self.epochs.append(found)

    def write(self) -> Path:
        """Write history.json and return its path."""
        path = self.folder / HISTORY_NAME
        history = {"trainer": self.trainer, "epochs": self.epochs, "steps": self.steps}
        text = json.dumps(history, allow_nan=False) + "\n"
        write_if_room(path, lambda file: file.write(text.encode("utf-8")))
        return path

    def draw(self, title: str) -> Path | None:
        """Draw curves.png and return its path; None without matplotlib or anything to draw."""
        series = self._series()
        if not series:
            return None
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            return None
        columns = min(3, len(series))
        rows = math.ceil(len(series) / columns)
        width, height = 4 * columns, 2.6 * rows
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        # Room in inches, as a layout that measures each label draws everything a second time.
        figure.subplots_adjust(
            left=0.6 / width, right=1 - 0.15 / width, wspace=0.6 / 3.25,
            bottom=0.45 / height, top=1 - 0.7 / height, hspace=0.75 / 1.55,
        )  # fmt: skip
        for place, (name, (steps, values, mark)) in enumerate(sorted(series.items()), 1):
            axes = figure.add_subplot(rows, columns, place)
            axes.plot(steps, values, mark, linewidth=1.2, markersize=3)
            axes.set_title(name, fontsize=9)
            axes.set_xlabel("step", fontsize=8)
            axes.tick_params(labelsize=7)
            axes.locator_params(nbins=5)
            axes.grid(alpha=0.3)
        figure.suptitle(title, fontsize=10, y=1 - 0.1 / height)
        path = self.folder / "curves.png"

        def save(file: IO[bytes]) -> None:
            figure.savefig(file, format="png", dpi=100)

        write_if_room(path, save)
        return path

    def _series(self) -> dict[str, tuple[list[int], list[float], str]]:
        series: dict[str, tuple[list[int], list[float], str]] = {}
        # A name that epochs have is drawn by epoch: their values are means, a step's are noise.
        for entries, mark in ((self.steps, "-"), (self.epochs, "o-")):
            found: dict[str, tuple[list[int], list[float], str]] = {}
            for entry in entries:
                for name, value in entry["values"].items():
                    if isinstance(value, (int, float)):
                        steps, values, _ = found.setdefault(name, ([], [], mark))
                        steps.append(entry["step"])
                        values.append(value)
            if mark == "-" or len(entries) > 1:
                series.update(found)
            else:
                series.update({name: value for name, value in found.items() if name not in series})
        return dict(list(series.items())[:18])
