"""Rounds of LightGBM (`[5]\\ttrain's auc: 0.99`), XGBoost (`train-auc:0.99`) and CatBoost."""

import re
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import seconds_of_parts, whole_number
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.sample import Sample, metric_name

_ROUND = late_pattern(r"^(?:\[(?P<round>\d+)\]|(?P<cat>\d+):)\t(?P<rest>\S.*)$")
_PAIR = late_pattern(r"^(?P<name>[^:]+?)\s*:\s*(?P<value>\S+?)(?: \(\d+\))?$")
_BEST = late_pattern(r"best iteration is", re.IGNORECASE)
_TIMES = ("total", "remaining", "passed")
_REMAINING = late_pattern(r"\tremaining: (?P<time>\d[^\t]*)$")


class BoostingReader(Reader):
    """One round is one step, counted as printed; the best round, printed last, is `best_…`."""

    name: ClassVar[str] = "boosting"
    marks: tuple[str, ...] = ("	", "est iteration")
    _best = False

    def read(self, line: str) -> Sample | None:
        """The metrics of one round."""
        if _BEST.search(line):
            # The next line has the values of the best round.
            self._best = True
            return None
        found = _ROUND.match(line)
        if found is None:
            return None
        values: dict[str, float] = {}
        for part in found["rest"].split("\t"):
            pair = _PAIR.match(part.strip())
            value = whole_number(pair["value"]) if pair else None
            if pair and value is not None and pair["name"] not in _TIMES:
                name = metric_name(re.sub(r"'s ", "/", pair["name"]))
                values[f"best_{name}" if self._best else name] = value
        if not values:
            return None
        done = float(found["round"] or found["cat"])
        if self._best:
            self._best = False
            return Sample(values, at=done)
        remaining = _REMAINING.search(found["rest"])
        eta = seconds_of_parts(remaining["time"]) if remaining else None
        return Sample(values, done, eta=eta)
