"""Tables of text: spaCy's and skorch's over a row of dashes, scikit-learn's, COCO's results.

Facts: spacy/training/loggers.py (console_logger), skorch/callbacks/logging.py (PrintLog),
sklearn/ensemble/_gb.py (VerboseReporter), detectron2/utils/logger.py (create_small_table).
"""

import re
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import number, whole_number
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader
from runners.watch.metrics.sample import Sample, metric_name

_DASHES = late_pattern(r"^\s*-{3,}(?:\s+-{2,})+\s*$")
_BARS = late_pattern(r"^\|(?:\s*:?-+:?\s*\|)+\s*$")
_BOOSTING = late_pattern(
    r"^\s+Iter\s+Train Loss(?:\s{2,}OOB (?:Improve|Loss))*\s+Remaining Time\s*$"
)
_BOX = late_pattern(r"Evaluation results for (?P<what>\w+)")
_TIME = late_pattern(r"(?P<value>[\d.]+)(?P<unit>[smh])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_EPOCHS = ("epoch", "e")
_STEPS = ("#", "iter", "step", "iteration")
_TIMES = ("dur", "time", "cp")


class ColumnsReader(Reader):
    """A heading, which says what the rows of numbers under it are.

    spaCy counts its epochs from 0; a row is at the end of its epoch elsewhere.
    """

    name: ClassVar[str] = "columns"
    marks: tuple[str, ...] = ("---", "Remaining Time", "Evaluation results", "epoch ", "LOSS ", "|")

    def __init__(self) -> None:
        self._before = ""
        self._names: list[str] = []
        self._box = ""
        self._barred = False
        self._counted = False

    def read(self, line: str) -> Sample | None:
        """A heading, or a row of a table whose heading was there."""
        before, self._before = self._before, line
        if box := _BOX.search(line):
            self._box = box["what"]
            return None
        if _DASHES.match(line) or _BARS.match(line):
            return self._begin(_heading(before, line), "|" in line)
        if _BOOSTING.match(line):
            return self._begin([part.lower() for part in re.split(r"\s{2,}", line.strip())], False)
        if not self._names:
            return None
        row = self._row(line)
        if row is None and line.strip():
            self._names, self.marks = [], type(self).marks
        return row

    def _begin(self, names: list[str], barred: bool) -> Sample | None:
        known = {*_EPOCHS, *_STEPS} & set(names)
        if not (known or (barred and self._box)) or len(set(names)) < len(names):
            return None
        # The rows have no mark of their own, so from now on every line is asked for.
        self._names, self._barred, self._counted = names, barred, bool(known)
        self.marks = ("",)
        return CLAIMED

    def _row(self, line: str) -> Sample | None:
        cells = line.strip().strip("|").split("|") if self._barred else line.split()
        numbers = [whole_number(cell) for cell in cells]
        if self._barred and not self._counted:
            return self._result(numbers)
        if len(cells) < len(self._names) and self._names[0] != "e":
            return None
        values: dict[str, float] = {}
        step = epoch = eta = None
        for name, value, cell in zip(self._names, numbers, cells, strict=False):
            if name == "remaining time" and (time := _TIME.fullmatch(cell)):
                eta = number(time["value"]) * _UNITS[time["unit"]]
            elif value is None:
                # skorch writes a `+` where it kept a checkpoint.
                if values or step is not None or epoch is not None:
                    break
                return None
            elif name in _EPOCHS:
                epoch = value + (name == "e")
            elif name in _STEPS:
                step = value
            elif name not in _TIMES:
                values[metric_name(name)] = value
        over = epoch if epoch is not None and step is None else None
        return Sample(values, step, epoch=epoch, eta=eta, over=over) if values else None

    def _result(self, numbers: list[float | None]) -> Sample | None:
        if len(numbers) != len(self._names):
            return None
        found = zip(self._names, numbers, strict=True)
        values = {f"{self._box}/{metric_name(n)}": v for n, v in found if v is not None}
        self._names, self.marks = [], type(self).marks
        return Sample(values) if values else CLAIMED


def _heading(text: str, under: str) -> list[str]:
    """The names over a row of dashes: each over its own, as they may have spaces in them."""
    if "|" in under:
        return [cell.strip().lower() for cell in text.strip().strip("|").split("|")]
    ends = [found.end() for found in re.finditer(r"-+", under)]
    begins = [0, *ends[:-1]]
    return [
        text[begin : None if end == ends[-1] else end].strip().lower()
        for begin, end in zip(begins, ends, strict=True)
    ]
