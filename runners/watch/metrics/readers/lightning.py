"""Lightning's bars: tqdm's, with epochs from 0, and rich's, whose values may go on below."""

import re
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import whole_number
from runners.watch.metrics.readers.bars import Bar, read_bar
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader
from runners.watch.metrics.sample import Sample, metric_name

_RICH = late_pattern(
    r"^\s*(?P<what>[A-Z]\w*)(?: [A-Za-z]\w*)?(?: DataLoader "
    r"\d+)?\s+(?:(?P<epoch>\d+)(?:/(?P<last>\d+))?\s+)?[━╸╺][━╸╺ ]*\s"
    r"(?P<done>\d+)/(?P<total>\d+)\s+\d+:\d\d:\d\d\s*•\s*\S+\s+"
    r"(?P<rate>[\d.]+)it/s\s*(?P<values>.*)$"
)
_VALUE = late_pattern(r"(?P<name>[A-Za-z_][\w/.@\-]*):\s*(?P<value>\S+)")
_GOES_ON = late_pattern(r"^\s{8,}[A-Za-z_][\w/.@\-]*:\s*\S+(?:\s+[A-Za-z_][\w/.@\-]*:\s*\S+)*\s*$")
_NOT_METRICS = {"v_num"}
_MARK = late_pattern(r"\bv_num=")


class LightningReader(Reader):
    """Steps over all epochs, counted from 1 here; values left by the sanity check are not used."""

    name: ClassVar[str] = "lightning"
    bars: tuple[str, ...] = ("v_num=",)
    notes: ClassVar[tuple[str, ...]] = ("epochs are counted from 1; Lightning prints them from 0",)
    marks: tuple[str, ...] = ("%|", "•", "━", "╸", "        ")

    def __init__(self) -> None:
        self._marked = False
        self._place: Sample | None = None
        self._before: dict[str, float] = {}
        self._at_start = True
        self._reached = 0.0

    def read(self, line: str) -> Sample | None:
        """The training bar of an epoch; validation and sanity checking change nothing."""
        rich = _RICH.match(line) if "•" in line else None
        if rich is not None:
            return self._rich(rich)
        if self.sure and ("━" in line or "╸" in line):
            return CLAIMED  # a bar of its own that is not whole
        if self._place is not None and _GOES_ON.match(line):
            return self._place._replace(values=self._fresh(_values_in(line)))
        bar = read_bar(line) if "|" in line else None
        self._place = None
        if bar is None or bar.total is None:
            return None
        # `v_num` is Lightning's: a plain tqdm loop over epochs counts otherwise.
        if not self._marked and _MARK.search(line):
            self._marked, self.bars = True, ("%|",)
        if bar.epoch is None or not bar.text.startswith("Epoch"):
            # Its other bars are those of sanity checking, validation and testing.
            return CLAIMED if self._marked and not bar.is_training else None
        return self._tqdm(bar) if self._marked and bar.epochs is None else None

    def _rich(self, bar: "re.Match[str]") -> Sample | None:
        if bar["what"] != "Epoch" or bar["epoch"] is None:
            self._place = None
            return CLAIMED
        # Rich shows the number of the last epoch, not how many there are.
        epochs = float(bar["last"]) + 1 if bar["last"] else None
        rate = whole_number(bar["rate"])
        place = _placed(
            float(bar["epoch"]),
            epochs,
            float(bar["done"]),
            float(bar["total"]),
            1 / rate if rate else None,
        )
        self._at_start = not place.step
        self._place, self.sure = place, True
        return place._replace(values=self._fresh(_values_in(bar["values"])))

    def _tqdm(self, bar: Bar) -> Sample:
        assert bar.epoch is not None and bar.total is not None
        place = _placed(bar.epoch, None, bar.done, bar.total, bar.pace)
        self.sure = True
        if not bar.done and (place.step or 0.0) < self._reached:
            return CLAIMED  # set back for the next epoch, whose number it does not have yet
        self._reached = place.step or 0.0
        self._at_start = not place.step
        return place._replace(values=self._fresh(bar.values))

    def _fresh(self, values: dict[str, float]) -> dict[str, float]:
        """Those that were not there before the first step, or have changed since."""
        named = {
            metric_name(name): value for name, value in values.items() if name not in _NOT_METRICS
        }
        if self._at_start:
            self._before.update(named)
            return {}
        for name, value in named.items():
            if self._before.get(name, value) != value:
                del self._before[name]
        return {name: value for name, value in named.items() if name not in self._before}


def _values_in(text: str) -> dict[str, float]:
    found = {pair["name"]: whole_number(pair["value"]) for pair in _VALUE.finditer(text)}
    return {name: value for name, value in found.items() if value is not None}


def _placed(
    epoch: float, epochs: float | None, done: float, total: float, pace: float | None
) -> Sample:
    return Sample(
        {},
        epoch * total + done,
        epochs * total if epochs else None,
        epoch + 1,
        epochs,
        pace=pace,
    )
