"""The order of runs in a table: by one or more columns; what is unknown stands last either way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from runners.model.errors import WrongInput
from runners.model.states import State
from runners.places.run_row import RunRow
from runners.watch.metrics.sample import higher_is_better
from tui.views.runs.run_settings import as_number

_RANKS = {state: rank for rank, state in enumerate(State)}


def _percent(row: RunRow, _: float) -> float | None:
    return None if row.fraction is None else 100 * row.fraction


class RunField(NamedTuple):
    """What is known of a run under one name: sorted by `value`, and searched.

    `value` is None where it is unknown; `most_first` says that the greatest stands first. A field
    with a `text` is searched for words, one with an `amount` (of a row, now) is compared.
    """

    value: Callable[[RunRow], Any]
    most_first: bool = False
    amount: Callable[[RunRow, float], float | None] | None = None
    text: Callable[[RunRow], str] | None = None


def _text_field(text: Callable[[RunRow], str]) -> RunField:
    """A field that is a text, unknown where it is empty."""
    return RunField(lambda row: text(row) or None, text=text)


FIELDS: dict[str, RunField] = {
    "state": RunField(lambda row: _RANKS[row.state]),
    "name": RunField(lambda row: row.name.lower(), text=lambda row: row.name),
    "run": _text_field(lambda row: row.id),
    "preset": _text_field(lambda row: row.preset),
    "group": _text_field(lambda row: row.group),
    "host": RunField(lambda row: row.host or None),
    "user": _text_field(lambda row: row.user),
    "tags": RunField(lambda row: row.tags or None),
    "star": RunField(lambda row: row.starred, True),
    "gpus": RunField(lambda row: row.gpus or None, amount=lambda row, _: len(row.gpus)),
    "progress": RunField(lambda row: row.fraction, True, _percent),
    "epoch": RunField(lambda row: row.epoch, True),
    "eta": RunField(lambda row: row.eta_s, amount=lambda row, _: row.eta_s),
    "elapsed": RunField(lambda row: row.seconds, True, lambda row, _: row.seconds),
    "age": RunField(lambda row: -row.created, amount=lambda row, now: now - row.created),
    "created": RunField(lambda row: row.created, True),
    "started": RunField(lambda row: row.started, True),
    "ended": RunField(lambda row: row.ended, True),
    "exit": RunField(lambda row: row.exit_code, True, lambda row, _: row.exit_code),
    "cost": RunField(lambda row: row.cost, True, lambda row, _: row.cost),
    "rate": RunField(lambda row: row.rate, True),
    "reason": _text_field(lambda row: row.remark),
}
"""By their names, which are those of columns where one shows them."""
SORTABLE = (*FIELDS, "last", "best")
"""Columns that runs can be sorted by; besides, `last:METRIC`, `best:METRIC`, a metric's name and
`set:NAME`, a setting.
"""
SETTING = "set:"
"""What stands before a setting's name where columns are named."""
NAMED = ("last:", "best:", SETTING)
"""What stands before the name of a metric or setting that is a column."""


def can_sort_by(column: str) -> bool:
    """Whether runs can be sorted by this column."""
    return column in SORTABLE or column.startswith(NAMED)


class SortKey(NamedTuple):
    """A column to sort by; `turned` when the other end comes first than does by itself."""

    column: str
    turned: bool = False

    @property
    def descending(self) -> bool:
        """Whether the greatest value stands first."""
        if self.column in FIELDS:
            return _order(self, None).most_first != self.turned
        name = self.column.partition(":")[2]
        if self.column.startswith(SETTING):
            return self.turned
        return bool(higher_is_better(name)) != self.turned


def parse_sort(text: str) -> tuple[SortKey, ...]:
    """`state,best:loss-` as keys: `-` on either side reverses one; WrongInput for an empty one."""
    keys = []
    for word in (word.strip() for word in text.split(",")):
        column = word.removeprefix("-").removesuffix("-")
        column = column.lower() if column.lower() in SORTABLE else column
        if not column or column in NAMED:
            raise WrongInput(
                f"--sort {text}: a column is missing",
                f"one of {', '.join(SORTABLE)}, best:METRIC, set:NAME or a metric's name",
            )
        if not can_sort_by(column):
            column = f"last:{column}"
        keys.append(SortKey(column, word.startswith("-") or word.endswith("-")))
    return tuple(keys)


def sort_rows(
    rows: Iterable[RunRow], keys: Sequence[SortKey], metric: str | None = None
) -> list[RunRow]:
    """`rows` in order; those that are equal stay as they are. `metric` is what `last` and `best`
    mean; None: each run's own headline.
    """
    found = list(rows)
    # The last key first: sorting is stable.
    for key in reversed(keys):
        order = _order(key, metric)
        kind, _, name = key.column.partition(":")
        if kind in ("last", "best"):
            name = name or metric or _commonest(found, kind) or ""
            order = order._replace(most_first=bool(_upwards(found, name)))
        values = [(order.value(row), row) for row in found]
        # What is no number has no place among numbers.
        known = [pair for pair in values if pair[0] is not None and pair[0] == pair[0]]
        unknown = [row for value, row in values if value is None or value != value]
        known.sort(key=itemgetter(0), reverse=order.most_first != key.turned)
        found = [row for _, row in known] + unknown
    return found


def _setting_value(name: str, row: RunRow) -> tuple[bool, float, str] | None:
    """What a run is sorted by for a setting: numbers by size, before texts; None without it."""
    value = row.settings.get(name)
    if value is None:
        return None
    number = as_number(value)
    return (True, 0.0, value) if number is None else (False, number, "")


def _order(key: SortKey, metric: str | None) -> RunField:
    if key.column in FIELDS:
        return FIELDS[key.column]
    kind, _, name = key.column.partition(":")
    if key.column.startswith(SETTING):
        return RunField(partial(_setting_value, name))
    wanted = name or metric
    if wanted is None:
        return RunField((lambda row: row.best_value) if kind == "best" else (lambda row: row.last))
    place = 1 if kind == "best" else 0
    return RunField(lambda row: row.metric(wanted)[place])


def _commonest(rows: Sequence[RunRow], kind: str) -> str | None:
    # A hundred tell: runs of one table mostly have one headline.
    found = [row.judge if kind == "best" else row.headline for row in rows[:100]]
    names = [name for name in found if name is not None]
    return max(set(names), key=names.count, default=None)


def _upwards(rows: Iterable[RunRow], name: str) -> bool | None:
    """Whether more of a metric is better, as the runs that are judged by it say, else its name."""
    known = (row.is_higher_better for row in rows if row.judge == name)
    return next((upwards for upwards in known if upwards is not None), higher_is_better(name))
