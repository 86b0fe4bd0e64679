"""Keras' bars: `12/25 ━━━━━━ 3s 10ms/step - accuracy: 0.51 - loss: 0.69`; `[==>..]` in Keras 2."""

from math import isfinite
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.readers.line_reader import Reader, pairs_in
from runners.watch.metrics.sample import Sample

_EPOCH = late_pattern(r"^\s*Epoch (?P<epoch>\d+)/(?P<epochs>\d+)\s*$")
_BAR = late_pattern(r"^\s*(?P<done>\d+)/(?P<total>\d+) +(?:[━╸╺][━╸╺ ]*|\[[=>. ]*\])(?P<rest>.*)$")
_LINE = late_pattern(
    r"^(?P<done>\d+)/(?P=done) - (?P<whole>[\d.]+)(?P<unit>us|ms|s)(?P<rest> - .*)$"
)
"""An epoch's one line (verbose=2), after it: `120/120 - 20s - 170ms/step - accuracy: 0.83 …`."""
_PACE = late_pattern(r"(?<![\d.])(?P<pace>[\d.]+)(?P<unit>us|ms|s)/step")
_VALUE = late_pattern(rf" - (?P<name>[A-Za-z_][\w/.\- ]*?): (?P<value>{WHOLE})")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class KerasReader(Reader):
    """Steps over all epochs; values within an epoch are Keras' running means."""

    name: ClassVar[str] = "keras"
    marks: tuple[str, ...] = ("Epoch ", "━", "[=", "[>", "[.", "/step", "s - ")
    notes: ClassVar[tuple[str, ...]] = ("values within an epoch are its mean so far",)
    _epoch: float | None = 1.0
    _epochs: float | None = None

    def pass_gap(self) -> None:
        """The bars that come belong to an epoch whose heading nobody read."""
        super().pass_gap()
        self._epoch = None

    def read(self, line: str) -> Sample | None:
        """An epoch's heading, or a redraw of its bar."""
        heading = _EPOCH.match(line)
        if heading is not None:
            self._epoch, self._epochs = float(heading["epoch"]), float(heading["epochs"])
            return Sample(epoch=self._epoch, epochs=self._epochs, over=self._epoch - 1)
        # Keras moves back over its bar by backspaces, and may leave pieces of the last in front.
        line = line.replace("\b", "")
        bar = _BAR.match(line) or _LINE.match(line)
        if bar is None:
            return None
        done, pace = float(bar["done"]), _PACE.search(bar["rest"])
        each = number(pace["pace"]) if pace else 0.0
        total = float(bar.groupdict().get("total", done))
        values = pairs_in(_VALUE, bar["rest"])
        return Sample(
            values,
            (self._epoch - 1) * total + done if self._epoch else None,
            total * self._epochs if self._epochs else None,
            self._epoch,
            self._epochs,
            pace=each * _UNITS[pace["unit"]] if pace and isfinite(each) else None,
            running=tuple(values) if done < total else (),
            over=self._epoch if self._epoch and done == total else None,
        )
