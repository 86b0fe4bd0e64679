"""One run as a line of a table: the values that tables show, sort and filter by, and no more.

The same type in every place: a run of another machine comes over its link as this row. Rows of
ended runs are kept in memory and on disk by the thousand, so they stay small: metrics lie in one
packed piece that is only taken apart when somebody asks for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from runners.model.health import Condition
from runners.model.run import Checkpoint
from runners.model.states import State

MetricValues = tuple[float | None, float | None, float | None]
"""A metric's last value, its best, and the step of the best; unknown is None."""

MOST_METRICS = 64
"""So many of a run's metrics can be sorted and filtered by, the headline first."""

MOST_SETTINGS = 64
"""So many of a run's settings can be found and sorted by."""
_LONGEST_SETTING = 200
_UNPLACED = 1 << 30
"""Behind every place of a queue."""

_decode_metrics = msgspec.msgpack.Decoder(dict[str, MetricValues])
_decode_settings = msgspec.msgpack.Decoder(dict[str, str])


def pack_metrics(
    metrics: Mapping[str, MetricValues], headline: str | None, *others: str | None
) -> bytes:
    """The metrics that a row keeps: the headline first, then the others that it must not lose."""
    names = sorted(metrics, key=lambda name: (name != headline, name not in others, name))
    return msgspec.msgpack.encode({name: metrics[name] for name in names[:MOST_METRICS]})


NO_METRICS = pack_metrics({}, None)


def pack_settings(settings: Mapping[str, str]) -> bytes:
    """The settings that a row keeps, of each value so much as anybody compares."""
    kept = list(settings.items())[:MOST_SETTINGS]
    return msgspec.msgpack.encode({name: value[:_LONGEST_SETTING] for name, value in kept})


NO_SETTINGS = pack_settings({})


class RunRow(msgspec.Struct, array_like=True, gc=False):
    """A run's values in a table; times in unix seconds, unknown is None, and cost in dollars.

    On disk and over a link a row has no field names. Both carry the fingerprint of these fields, so
    that a row of other fields is refused, and nothing has to be counted up when they change.
    """

    id: str
    stamp: int
    """When anything last changed in its folder (ns), by which an ended row is known to hold."""
    name: str
    preset: str
    group: str
    state: State
    remark: str
    """Why it is where it is: a reason, a prompt it waits at, an alert, a note."""
    host: str
    user: str
    created: float
    started: float | None = None
    ended: float | None = None
    seconds: float | None = None
    exit_code: int | None = None
    gpus: tuple[int, ...] = ()
    fraction: float | None = None
    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    headline: str | None = None
    last: float | None = None
    best: float | None = None
    packed: bytes = NO_METRICS
    spark: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    starred: bool = False
    is_final: bool = False
    """Whether the report of its whole output is in it."""
    is_live: bool = False
    urgent: bool = False
    """Whether its remark asks for somebody."""
    cost: float | None = None
    eta_s: float | None = None
    rate: float | None = None
    rate_unit: str = ""
    phase: str = ""
    doing: Condition | None = None
    """What it does while it runs; unknown is None."""
    stop_until: float | None = None
    """While it stops, when the next step comes."""
    judged_by: str | None = None
    """The metric whose best value counts, where its user or preset names one; else the headline."""
    is_higher_better: bool | None = None
    """Whether more of that is better; None where nobody knows."""
    validation: str | None = None
    """The metric of held-out data that stands beside the headline."""
    checkpoint: Checkpoint | None = None
    """The newest that was seen; of runs that ended long ago it is not looked for."""
    packed_settings: bytes = NO_SETTINGS
    """What it was started with: parameters and flags, by name."""
    queue_place: int | None = None
    """Where it stands in its machine's queue, from 1."""

    @property
    def machine(self) -> str:
        """The rented machine that it runs on, as it is called here; empty for this one."""
        name, slash, _ = self.id.removeprefix("group:").partition("/")
        return name if slash else ""

    @property
    def run_id(self) -> str:
        """The run's id, as its own machine knows it."""
        return self.id.rpartition("/")[2]

    def metric(self, name: str) -> MetricValues:
        """The values of one metric; all None when it has none of that name."""
        if name == self.headline:
            return self.last, self.best, None
        return self.metrics.get(name, (None, None, None))

    @property
    def best_value(self) -> float | None:
        """The best value of what the run is judged by."""
        return self.best if self.judged_by is None else self.metric(self.judged_by)[1]

    @property
    def judge(self) -> str | None:
        """The metric that `best_value` is of."""
        return self.headline if self.judged_by is None else self.judged_by

    @property
    def settings(self) -> dict[str, str]:
        """What it was started with, by name."""
        return _decode_settings.decode(self.packed_settings)

    @property
    def metrics(self) -> dict[str, MetricValues]:
        """Every metric that is kept."""
        return _decode_metrics.decode(self.packed)


def running_first(row: RunRow) -> tuple[bool, bool, int, float]:
    """Sorts rows as lists do: those that run, those that wait in their order, those that ended.

    The newest first, where the queue says nothing else.
    """
    waits = row.state is State.QUEUED
    return not row.is_live, waits, row.queue_place or _UNPLACED, -row.created


def view_of_row(row: RunRow, reason: str) -> dict[str, Any]:
    """A row as plain values of a view in full: what no row has is missing."""
    run = {
        "id": row.id,
        "preset": "",
        "name": row.name,
        "state": str(row.state),
        "reason": reason,
        "directory": "",
        "created": row.created,
    }
    nothing: dict[str, Any] = {"metrics": {}, "summary": {}, "trend": (), "images": ()}
    return {**nothing, "run": run, "progress": {}, "checkpoint": None, "seconds": row.seconds}
