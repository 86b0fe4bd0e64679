"""Lightning's bars: tqdm's with epochs from 0 (`Epoch 3:  48%|…`), and rich's (`Epoch 3/9 ━━━
12/25 0:00:03 …`).
"""

import re
from typing import ClassVar

from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.reader import Reader
from runners.watch.metrics.sample import NUMBER, Sample, metric_name, number

_RICH = re.compile(
    r"^\s*(?P<what>[A-Z]\w*)(?: DataLoader "
    r"\d+)?\s+(?:(?P<epoch>\d+)(?:/(?P<last>\d+))?\s+)?[━╸╺ ]*[━╸╺][━╸╺ ]*\s"
    r"(?P<done>\d+)/(?P<total>\d+)\s+\d+:\d\d:\d\d\s*•\s*\S+\s+(?P<rate>[\d.]+)it/s\s*(?P<values>.*)$"
)
_VALUE = re.compile(rf"(?P<name>[A-Za-z_][\w/.\-]*):\s*(?P<value>{NUMBER})")
_NOT_METRICS = {"v_num"}


class LightningReader(Reader):
    """Steps over all epochs, epochs counted from 1 although Lightning counts them from 0."""

    name: ClassVar[str] = "lightning"
    notes: ClassVar[tuple[str, ...]] = ("epochs are counted from 1; Lightning prints them from 0",)

    def read(self, line: str) -> Sample | None:
        """The training bar of an epoch; validation and sanity checking move nothing."""
        rich = _RICH.match(line) if "•" in line else None
        if rich is not None:
            if rich["what"] != "Epoch" or rich["epoch"] is None:
                return None
            values = {
                pair["name"]: number(pair["value"]) for pair in _VALUE.finditer(rich["values"])
            }
            epochs = float(rich["last"]) + 1 if rich["last"] else None
            rate = float(rich["rate"])
            return _place(
                float(rich["epoch"]),
                epochs,
                float(rich["done"]),
                float(rich["total"]),
                rate,
                values,
            )
        bar = read_bar(line) if "|" in line else None
        if (
            bar is None
            or bar.epoch is None
            or not bar.text.startswith("Epoch")
            or bar.total is None
        ):
            return None
        return _place(
            bar.epoch, None, bar.done, bar.total, 1 / bar.pace if bar.pace else 0.0, bar.values
        )


def _place(
    epoch: float,
    epochs: float | None,
    done: float,
    total: float,
    rate: float,
    values: dict[str, float],
) -> Sample:
    return Sample(
        {metric_name(name): value for name, value in values.items() if name not in _NOT_METRICS},
        epoch * total + done,
        epochs * total if epochs else None,
        epoch + 1,
        epochs,
        pace=1 / rate if rate else None,
    )
