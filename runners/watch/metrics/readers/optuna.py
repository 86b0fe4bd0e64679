"""optuna's log: `Trial 3 finished with value: 0.82 and parameters: {…}. Best is trial 1 …`."""

from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader
from runners.watch.metrics.sample import Sample

_TRIAL = late_pattern(
    rf"Trial (?P<trial>\d+) finished with values?: (?P<values>\[[^\]]*\]|{WHOLE}) and parameters: "
)
_BEST = late_pattern(rf"Best is trial \d+ with value: (?P<best>{WHOLE})\.?\s*$")
_VALUE = late_pattern(WHOLE)


class OptunaReader(Reader):
    """A trial is a step, from 1 here; optuna's log does not say whether less or more is better."""

    name: ClassVar[str] = "optuna"
    marks: tuple[str, ...] = ("Trial ",)
    notes: ClassVar[tuple[str, ...]] = ("trials are counted from 1; optuna's log from 0",)
    _done = 0.0

    def read(self, line: str) -> Sample | None:
        """A finished trial: its value, and the best of the study where it has one."""
        found = _TRIAL.search(line)
        if found is None:
            return CLAIMED if "Trial " in line and ("pruned" in line or "failed" in line) else None
        several = [number(value) for value in _VALUE.findall(found["values"])]
        values = {f"value_{i}": value for i, value in enumerate(several)}
        if not found["values"].startswith("["):
            values = {"value": several[0]}
        if best := _BEST.search(line):
            values["best_value"] = number(best["best"])
        # Trials that run side by side end in any order.
        self._done = max(self._done, number(found["trial"]) + 1)
        return Sample(values, self._done, unit="trials")
