"""The columns of a table of runs: headings, texts, and which of them fit into a width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from runners.host.clock import age
from runners.model.run_ids import by_names
from runners.model.states import State
from runners.model.units import indices
from runners.places.run_row import RunRow
from runners.watch.metrics.judging import held_out_name
from tui.views.format import DASH, duration, first_line, fitted, metric, three_digits
from tui.views.runs.row_reading import age_text
from tui.views.runs.run_sort import FIELDS, SortKey

NO_RUNS = "no runs yet"
REMARK_ROOM = 20
"""Cells that a reason needs to be worth reading."""


class TableContext(NamedTuple):
    """What a table needs besides its rows: the time (unix seconds), and the chosen metric."""

    now: float
    metric: str | None = None
    """What `last` and `best` show; None: each run's own headline."""
    names: Mapping[str, str] = MappingProxyType({})
    """How runs are called now, by id."""


class Column(NamedTuple):
    """One column: its heading, the text of a row in at most so many cells, and how many it takes.

    `room` is what it takes where there is plenty.
    """

    key: str
    heading: str
    text: Callable[[RunRow, TableContext, int], str]
    width: int
    room: int = 0
    right: bool = True


def _progress(row: RunRow, context: TableContext, width: int) -> str:
    if row.step is not None and row.steps and (width > 10 or row.fraction is None):
        text = f"{row.step:,}/{row.steps:,}"
        if len(text) <= width:
            return text
    return "" if row.fraction is None else f"{row.fraction:.0%}"


def _epoch(row: RunRow, context: TableContext, width: int) -> str:
    if row.phase:
        return row.phase
    if row.epoch is None:
        return ""
    return f"e{row.epoch}/{row.epochs}" if row.epochs else f"e{row.epoch}"


def _gpus(row: RunRow, context: TableContext, width: int) -> str:
    if row.gpus:
        return indices(list(row.gpus))
    return "" if row.started is None else "cpu"


def _rate(row: RunRow, context: TableContext, width: int) -> str:
    if row.rate is None:
        return ""
    return f"{three_digits(row.rate)} {row.rate_unit}/s"


def _last(row: RunRow, context: TableContext, width: int) -> str:
    value = row.last if context.metric is None else row.metric(context.metric)[0]
    return number_in(value, width)


def _best(row: RunRow, context: TableContext, width: int) -> str:
    value = row.best_value if context.metric is None else row.metric(context.metric)[1]
    return number_in(value, width)


def _validation(row: RunRow, context: TableContext, width: int) -> str:
    """`psnr 21.3`, or the number alone where its name has no room."""
    if row.validation is None:
        return ""
    value = row.metric(row.validation)[0]
    number = number_in(value, width)
    named = f"{held_out_name(row.validation)} {number}" if number else ""
    return named if len(named) <= width else number


_SOON_S = 5
"""Less is `<5s`: what trains is not over."""


def _eta(row: RunRow, context: TableContext, width: int) -> str:
    if row.eta_s is None:
        return ""
    return duration(coarse(row.eta_s)) if row.eta_s >= _SOON_S else f"<{_SOON_S}s"


def _elapsed(row: RunRow, context: TableContext, width: int) -> str:
    if row.seconds is None:
        return ""
    return duration(coarse(row.seconds) if row.is_live else row.seconds)


def _cost(row: RunRow, context: TableContext, width: int) -> str:
    if row.cost is None:
        return ""
    return "<$0.01" if 0 < row.cost < 0.01 else f"${row.cost:,.2f}"


def state_word(row: RunRow, now: float) -> str:
    """The state; while it stops, how long until the next step: `stop 28s`."""
    if row.stop_until is None:
        return str(row.state)
    left = int(max(0.0, row.stop_until - now))
    return f"stop {left}s" if left < 100 else f"stop {left // 60}m"


COLUMNS = {
    column.key: column
    for column in (
        Column("state", "state", lambda row, to, _: state_word(row, to.now), 8, 9, right=False),
        Column("name", "name", lambda row, *_: row.name, 8, 40, right=False),
        Column("host", "host", lambda row, *_: row.machine or "here", 6, 12, right=False),
        Column("gpus", "GPUs", _gpus, 5, right=False),
        Column("progress", "prog", _progress, 4, 13),
        Column("epoch", "epoch", _epoch, 9, right=False),
        Column("last", "last", _last, 7, 9),
        Column("best", "best", _best, 7, 9),
        Column("validation", "validation", _validation, 10, 16),
        Column("trend", "trend", lambda row, *_: row.spark, 8, right=False),
        Column("rate", "rate", _rate, 13),
        Column("age", "age", lambda row, context, _: age_text(age(row.created, context.now)), 4),
        Column("cost", "cost", _cost, 7, 9),
        Column("tags", "tags", lambda row, *_: ",".join(row.tags), 10, right=False),
        Column("eta", "ETA", _eta, 6),
        Column("elapsed", "elapsed", _elapsed, 7),
        Column(
            "reason", "reason", lambda row, to, _: by_names(row.remark, to.names), 20, 400, False
        ),
    )
}
_FIRST = ("state", "name", "host", "progress", "last", "eta")
"""What even the narrowest table has, in the order in which it is given room."""
_ALWAYS = 2
"""So many of these come before what somebody asked for."""
_ASKED_FOR = 3
"""Which column of all that is: behind the host, before all that a reason is written over."""
_THEN = (
    *("age", "best", "elapsed", "validation", "gpus", "cost", "reason", "trend", "tags", "rate"),
    "epoch",
)
_ROOMIER = ["progress", "name", "host", "cost", "last", "best", "validation", "state", "reason"]
"""Columns that get more room where there is some left, one after the other."""
_NAMES_BEFORE = {"elapsed": 15, "trend": 28}
"""Before these columns and those after them, names get so much room as they need."""
_REMARK_FROM = ("reason", "eta", "best", "progress")
"""Where a reason may begin: the first that leaves it room enough."""


class Cell(NamedTuple):
    """A column at its place in a table: where it begins, and how wide it is."""

    column: Column
    start: int
    width: int


def fit_columns(
    width: int,
    absent: Iterable[str] = (),
    longest_name: int = 40,
    hosts: bool = False,
    named: Sequence[Column] = (),
    longest_state: int = 0,
) -> tuple[Cell, ...]:
    """The columns that fit into `width` cells, in their places, without those that are `absent`.

    With `hosts`, runs of several machines stand in one table. Those that are `named`
    somebody asked for: only state and name have room before them. A state is never cut.
    """
    every = {**COLUMNS, **{column.key: column for column in named}}
    begin, end = _FIRST[:_ALWAYS], _FIRST[_ALWAYS:]
    left = width
    chosen: dict[str, int] = {}
    gone = {*absent, *(() if hosts else ("host",))}
    for key in (*begin, *(column.key for column in named), *end, *_THEN):
        column = every[key]
        if key in _NAMES_BEFORE and "name" in chosen:
            more = max(0, min(left, min(_NAMES_BEFORE[key], longest_name) - chosen["name"]))
            chosen["name"] += more
            left -= more
        if key in gone or (left < column.width + 1 and key != "state"):
            continue
        chosen[key] = column.width
        left -= column.width + (1 if chosen else 0)
    left += 1  # none after the last
    # Rather from the name than at the price of a column, which would go with one such run.
    more = max(0, longest_state - chosen["state"])
    chosen["state"] += more
    left -= more
    if left < 0 and "name" in chosen:
        chosen["name"] += left
        left = 0
    for key, most in (("name", 20), *((key, COLUMNS[key].room) for key in _ROOMIER)):
        if key in chosen and left > 0:
            if key == "progress" and chosen[key] + left < most:
                continue
            useful = min(most, longest_name) if key == "name" else most
            more = max(0, min(left, useful - chosen[key]))
            chosen[key] += more
            left -= more
    cells, at = [], 0
    order = list(COLUMNS)
    order[_ASKED_FOR:_ASKED_FOR] = [column.key for column in named]
    for key in order:
        column = every[key]
        if key in chosen:
            cells.append(Cell(column, at, chosen[key]))
            at += chosen[key] + 1
    return tuple(cells)


def remark_span(
    row: RunRow, cells: Sequence[Cell], names: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """First and last cell of a row's reason, over other columns when long; (0, 0) for none."""
    text = by_names(row.remark, names)
    if not text or (row.state is State.DONE and not row.urgent):
        return 0, 0
    order = list(COLUMNS)
    end = cells[-1].start + cells[-1].width
    # How far and how well a run is that trains comes first.
    trains = row.is_live and row.started is not None and not row.urgent
    found = (0, 0)
    for key in ("reason",) if trains else _REMARK_FROM:
        if key == "best" and row.last is None and row.fraction is None:
            continue  # there is nothing before it to be kept
        at = order.index(key)
        after = [cell for cell in cells if cell.column.key in order[at:]]
        if not after:
            continue
        found = after[0].start, end
        room = end - found[0]
        enough = room >= REMARK_ROOM and row.last is not None and key != "reason"
        if room >= len(text) or enough:
            break
    return found


def heading_of(
    cell: Cell, context: TableContext, sort: Sequence[SortKey], common: str | None = None
) -> str:
    """A heading in its width: the metric's name where runs agree, an arrow for the order."""
    column, width = cell.column, cell.width
    text = column.heading
    if column.key == "progress" and width > 8:
        text = "progress"
    if column.key == "last":
        text = (context.metric or common or "last").rpartition("/")[2]
    key = next((key for key in sort if key.column == column.key), None)
    if key is not None:
        text = text[: width - 1] + ("▼" if key.descending else "▲")
    return fitted(text, width, column.right)


def number_in(value: float | None, width: int) -> str:
    """A metric in at most `width` cells, with as many digits as these hold."""
    if value is None:
        return ""
    text = metric(value)
    for digits in (3, 2, 1):
        if len(text) <= width:
            break
        text = f"{value:.{digits}g}"
    return text


def coarse(seconds: float) -> float:
    """`seconds` to the precision in which they are worth a repaint."""
    steps = ((600, 60), (60, 10), (0, _SOON_S))
    return seconds - seconds % next((step for least, step in steps if seconds >= least), _SOON_S)


def headings_agree(rows: Iterable[RunRow]) -> str | None:
    """The headline that all these rows have that have one; None when they differ."""
    found = {row.headline for row in rows if row.headline is not None}
    return found.pop() if len(found) == 1 else None


def table_text(key: str, context: TableContext) -> Callable[[RunRow], str]:
    """Rows' text in one column of a table that cuts nothing off; a dash where it is unknown."""
    if key in EXTRA:
        extra = EXTRA[key]
        return lambda row: extra(row) or DASH
    if key == "state":
        states = {state: f"{state.sign} {state}" for state in State}
        return lambda row: states[row.state]
    if key == "reason":
        return lambda row: by_names(row.remark, context.names)
    text, otherwise = COLUMNS[key].text, "" if key == "tags" else DASH
    width = 400 if key in ("last", "best", "validation", "tags") else 6
    return lambda row: text(row, context, width) or otherwise


EXTRA: dict[str, Callable[[RunRow], str]] = {
    **{name: text for name in ("run", "preset", "group", "user") if (text := FIELDS[name].text)},
    "host": lambda row: row.host,
    "note": lambda row: first_line(row.note),
    "star": lambda row: "★" if row.starred else "",
    "exit": lambda row: "" if row.exit_code is None else str(row.exit_code),
}
"""Columns that only a table in text has, on demand."""
