"""The Hugging Face Trainer's dictionaries: `{'loss': 0.5, 'grad_norm': 1.2, 'epoch': 1.0}`.

Quotes are single, newer versions print the values as texts (`{'loss': '0.5', …}`), and a bar over
all steps of the run is redrawn between them: a dictionary stands at the step that the bar has
reached.
"""

import re
from typing import ClassVar

from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.reader import Reader
from runners.watch.metrics.sample import NUMBER, Sample, metric_name, number

_ENTRY = re.compile(
    rf"""['"](?P<name>[\w/.\- ]+)['"]: *(?:np\.float\d+\()?['"]?(?P<value>{NUMBER})['"]?"""
)
_KNOWN = re.compile(r"""['"](?:loss|epoch|eval_\w+|train_\w+|learning_rate|grad_norm)['"]:""")


class HuggingFaceReader(Reader):
    """Steps from the bar, values from the dictionaries."""

    name: ClassVar[str] = "huggingface"

    def __init__(self) -> None:
        self._step: float | None = None
        self._steps: float | None = None

    def read(self, line: str) -> Sample | None:
        """A dictionary, or a redraw of the bar over all steps."""
        at = line.find("{")
        if at >= 0 and _KNOWN.search(line, at):
            if at and "|" in line:
                self.read(line[:at])  # the bar's own line goes on with the dictionary
            values = {
                metric_name(pair["name"]): number(pair["value"])
                for pair in _ENTRY.finditer(line, at)
            }
            epoch, step = values.pop("epoch", None), values.pop("step", None)
            return Sample(values, self._step if step is None else step, self._steps, epoch)
        bar = read_bar(line) if "|" in line else None
        if bar is None or bar.text or bar.total is None or bar.values:
            return None
        if self._steps is not None and bar.total < self._steps:
            # An evaluation has a bar of its own, and a shorter one.
            return None
        self._step, self._steps = bar.done, bar.total
        return Sample(step=bar.done, steps=bar.total, pace=bar.pace)
