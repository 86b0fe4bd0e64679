"""Curves of a run as they go over a link: thinned, first whole, then what was added to them."""

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from runners.model.run import Run
from runners.model.run_ids import is_run_id
from runners.places.ssh.bounds import require_points, require_sane
from runners.places.ssh.frames import CurvePart, CurvesFrame, decoded
from runners.watch.metrics.series import Series

_MOST = 1000
"""Points of a curve at first; it is thinned anew when it has grown to twice as many."""
_MOST_IN_ALL = 24_000
_MOST_ADDED = 2_400
_FEWEST = 60
_PER_BUCKET = 4

Line = Sequence[tuple[Run, Mapping[str, Series]]]
"""A run, the last, and those it was resumed from, with their series."""


class _Sent(NamedTuple):
    """How much of a series was looked at, how many points the other end has, and the last seen."""

    seen: int
    kept: int
    step: float
    value: float


class CurveSender:
    """What the other end does not have yet of a line."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, str], _Sent] = {}
        self._runs: list[Any] = []

    def news(self, line: Line) -> tuple[dict[str, Any], bytes]:
        """The fields and the raw bytes of a message; no fields when there is nothing new."""
        series = {
            (of, name): curve for of, (_, each) in enumerate(line) for name, curve in each.items()
        }
        fields: dict[str, Any] = {}
        runs = [msgspec.to_builtins(run) for run, _ in line]
        others = [run["id"] for run in runs] != [run["id"] for run in self._runs]
        if others or self._sent.keys() - series.keys():
            self._sent.clear()
            fields["anew"] = True
        if runs != self._runs:
            fields["runs"] = self._runs = runs
        most = max(_FEWEST, min(_MOST, _MOST_IN_ALL // max(1, len(series))))
        added = max(_PER_BUCKET, _MOST_ADDED // max(1, len(series)))
        parts, data = [], bytearray()
        for key, curve in series.items():
            if len(curve) and (part := self._part(key, curve, most, added, data)) is not None:
                parts.append(msgspec.to_builtins(part))
        if parts:
            fields["curves"] = parts
        return fields, bytes(data)

    def _part(
        self, key: tuple[int, str], curve: Series, most: int, added: int, data: bytearray
    ) -> CurvePart | None:
        known, count = self._sent.get(key), len(curve)
        if known is not None and (known.kept > 2 * most or not _goes_on(curve, known)):
            known = None
        if known is None:
            keep, chosen = 0, thinned(curve.values, 0, count, most)
        elif known.seen == count:
            return None
        else:
            keep, chosen = known.kept, thinned(curve.values, known.seen, count, added)
        self._sent[key] = _Sent(count, keep + len(chosen), curve.steps[-1], curve.last)
        for column in (curve.steps, curve.epochs, curve.times, curve.values):
            data += array("d", [column[i] for i in chosen]).tobytes()
        data += array("b", [curve.counts[i] for i in chosen]).tobytes()
        return CurvePart(
            *key,
            keep,
            len(chosen),
            curve.source,
            curve.unit,
            curve.simulated,
            curve.also,
            tuple(curve.stages),
        )


def _goes_on(curve: Series, known: _Sent) -> bool:
    """Whether a series still has what was sent of it: one that was resumed has other values."""
    at = known.seen - 1
    if at >= len(curve) or curve.steps[at] != known.step:
        return False
    value = curve.values[at]
    return value == known.value or (math.isnan(value) and math.isnan(known.value))


def thinned(values: Sequence[float], first: int, end: int, most: int) -> list[int]:
    """Indices of about `most` values from `first` to `end` that draw like all of them.

    Of each bucket the first, the last, the least and the greatest, and one that is not finite.
    """
    if end - first <= most:
        return list(range(first, end))
    buckets = max(1, most // _PER_BUCKET)
    kept: list[int] = []
    for bucket in range(buckets):
        low = first + (end - first) * bucket // buckets
        high = first + (end - first) * (bucket + 1) // buckets
        finite = [i for i in range(low, high) if math.isfinite(values[i])]
        chosen = {low, high - 1}
        if finite:
            chosen |= {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)}
        chosen.update([i for i in range(low, high) if not math.isfinite(values[i])][:1])
        kept += sorted(chosen)
    return kept


_POINT = 8 * 4 + 1
"""Bytes of a point: step, epoch, time and value, and whether it counts for the best."""


class CurveReader:
    """Puts lines together from what a CurveSender made."""

    def __init__(self) -> None:
        self.line: list[tuple[Run, dict[str, Series]]] = []
        """Made anew with every message: whoever has it may go on reading it."""

    def take(self, frame: CurvesFrame, data: bytes) -> None:
        """Take in a message. ValueError when it means something else by it than we do."""
        runs = [run for run, _ in self.line]
        if frame.runs is not None:
            runs = _runs(frame.runs)
        before = [] if frame.anew else [dict(series) for _, series in self.line]
        every = before + [{} for _ in range(len(runs) - len(before))]
        at = 0
        for part in frame.curves:
            size = _POINT * part.count
            if part.of >= len(every) or size > len(data) - at:
                raise ValueError("curves that are not whole")
            series = every[part.of]
            series[part.name] = _longer(series.get(part.name), part, data[at : at + size])
            at += size
        self.line = list(zip(runs, every, strict=False))


def _runs(trees: Sequence[Any]) -> list[Run]:
    runs = decoded(trees, list[Run])
    for run in runs:
        if not is_run_id(run.id):
            raise ValueError(f"a run called {run.id[:80]!r}")
        # A preset may well have an infinite parameter.
        require_sane(msgspec.structs.replace(run, plan=None))
    return runs


def _longer(before: Series | None, part: CurvePart, data: bytes) -> Series:
    columns, counts = array("d"), array("b")
    counts.frombytes(data[8 * 4 * part.count :])
    columns.frombytes(data[: 8 * 4 * part.count])
    curve = Series(part.name, part.source, part.unit, part.simulated)
    curve.also, curve.stages = part.also, list(part.stages)
    for i, name in enumerate(("steps", "epochs", "times", "values")):
        column: array[float] = getattr(curve, name)
        if before is not None:
            column.extend(getattr(before, name)[: part.keep])
        column.extend(columns[i * part.count : (i + 1) * part.count])
    if before is not None:
        curve.counts.extend(before.counts[: part.keep])
    curve.counts.extend(counts)
    begins = [step for step, _ in curve.stages]
    require_points(curve.steps, curve.epochs, curve.times, begins)
    return curve
