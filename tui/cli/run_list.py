"""`list`: the runs as a table or JSON, found and sorted as in the panel."""

import argparse
import time

from runners.cost.cost_reader import costs_of
from runners.cost.run_costs import Costs
from runners.host.clock import moment_now
from runners.housekeeping import tended_state
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.places.run_row import RunRow, running_first
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, list_runs, read_run
from tui.cli.output import echo, print_json, print_table, terminal_width
from tui.views.format import DASH
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_columns import (
    COLUMNS,
    EXTRA,
    NO_RUNS,
    Column,
    TableContext,
    table_text,
)

_SHOWN_ENDED = 100
_TEXTS = ("state", "preset", "name", "tag", "since")
_BY_DEFAULT = (
    *("run", "state", "gpus", "progress", "last", "best", "validation", "eta", "elapsed", "age"),
)
_ROOM_FOR_IDS = 100
"""Cells of a terminal that has room for ids beside the other columns; else there are names."""


def run_list(arguments: argparse.Namespace) -> None:
    """Show the runs: what lives first, the newest first, or as it is asked for."""
    columns = _columns(arguments)
    if arguments.limit is not None and arguments.limit < 0:
        raise WrongInput(f"--limit {arguments.limit}: expected 0 or more")
    state = tended_state()
    ids = list_run_ids(state)
    searched = [f"{name}:{value}" for name in _TEXTS if (value := getattr(arguments, name))]
    # To be searched or sorted, all of them are looked at.
    if arguments.find or arguments.sort or searched or arguments.all:
        from shlex import join  # `list` alone does without

        terms = " ".join(filter(None, (*arguments.find, join(searched))))
        rows, costs, more = _chosen(state, ids, terms, arguments)
    else:
        rows, costs = _newest(state, ids, arguments)
        more = len(ids) - len(rows)
    if arguments.json:
        from tui.views.runs.run_json import to_json
        from tui.views.runs.run_view import view_run

        runs = [read_run(state, row.id) for row in rows]
        print_json([to_json(view_run(run, costs=costs)) for run in runs])
    elif rows:
        _print(rows, columns, arguments.metric)
    elif not ids:
        echo(
            f"{NO_RUNS}: `fresnel-tui launch PRESET` starts one, `fresnel-tui presets` lists "
            "presets"
        )
    else:
        echo("no run matches")
    _tell_of_guard(state)
    if more > 0:
        how = "without --limit they are shown" if arguments.all else "--all shows them"
        echo(f"{more:,} more runs: {how}")


def _tell_of_guard(state: StateDirectory) -> None:
    if not state.guard.is_dir() and not state.preemption.exists():
        return
    from runners.guard.rule import read_guard  # few set one

    guard = read_guard(state)
    if guard.is_urgent:
        from tui.views.money.guard_text import guard_text

        echo(f"guard: {guard_text(guard, moment_now())}")


def _limit(arguments: argparse.Namespace) -> int | None:
    if arguments.limit is not None:
        return int(arguments.limit)
    return None if arguments.all else _SHOWN_ENDED


def _newest(
    state: StateDirectory, ids: list[str], arguments: argparse.Namespace
) -> tuple[list[RunRow], Costs]:
    """Live runs and the newest of the others; `--limit` counts them all."""
    limit = _limit(arguments)
    runs = list_runs(state, limit, ids=ids)
    costs = costs_of(state, runs, ids=ids)
    rows = [_row(run, costs) for run in runs]
    rows.sort(key=running_first)
    return rows if arguments.limit is None else rows[:limit], costs


def _row(run: Run, costs: Costs) -> RunRow:
    if run.is_live:
        from tui.views.runs.run_view import view_run  # what ended is read without

        return row_of_view(view_run(run, costs=costs))
    row = row_of_ended(run, 0)
    _note_cost(row, run, costs)
    return row


def _note_cost(row: RunRow, run: Run, costs: Costs) -> None:
    cost = costs.spent_on(run)
    row.cost = None if cost is None else float(cost)


def _chosen(
    state: StateDirectory, ids: list[str], terms: str, arguments: argparse.Namespace
) -> tuple[list[RunRow], Costs, int]:
    """The runs that were asked for, in the order that was, and how many more there are."""
    from tui.views.runs.ended_index import EndedIndex
    from tui.views.runs.run_query import checked_query, unknown_names
    from tui.views.runs.run_sort import parse_sort, sort_rows

    query = checked_query(terms, time.time())
    keys = parse_sort(arguments.sort) if arguments.sort else ()
    live = live_run_ids(state)
    index = EndedIndex(state)
    index.refresh(ids, live, verify=True)
    # Between the two looks a run may have come, or ended.
    others = [run_id for run_id in ids if run_id not in index.ended.ids]
    runs = [read_run(state, run_id) for run_id in others]
    costs = costs_of(state, runs, ids=ids)
    limit = _limit(arguments)
    # Reading thousands of runs for what they cost takes longer than looking all costs up.
    are_many = limit is None and not arguments.json
    if are_many or "cost" in query.text or any(key.column == "cost" for key in keys):
        from tui.views.money.ended_costs import ended_costs

        index.take_costs(ended_costs(state))
    everyone = [*(_row(run, costs) for run in runs), *index.ended.rows]
    for problem in unknown_names(query, everyone):
        echo(problem)
    rows = [*query.of(tuple(everyone))]
    rows.sort(key=running_first)
    rows = sort_rows(rows, keys, arguments.metric)
    shown = rows if limit is None else rows[:limit]
    if are_many:
        return shown, costs, 0
    ended = [read_run(state, row.id) for row in shown if not row.is_live]
    costs = costs_of(state, [*runs, *ended], ids=ids)
    for run, row in zip(ended, (row for row in shown if not row.is_live), strict=True):
        _note_cost(row, run, costs)
    return shown, costs, len(rows) - len(shown)


def _columns(arguments: argparse.Namespace) -> list[str] | None:
    """The columns that were asked for; WrongInput for one that there is not."""
    if not arguments.columns:
        return None
    known = {**COLUMNS, **EXTRA}
    found = []
    for word in (word.strip() for word in arguments.columns.split(",")):
        if word.lower() in known:
            found.append(word.lower())
        elif _named(word) is not None:
            found.append(word)
        else:
            raise WrongInput(
                f"--columns: no column `{word}`",
                f"{', '.join(sorted(known))}, last:METRIC, best:METRIC or set:NAME",
            )
    return found


def _named(key: str) -> Column | None:
    """The column of a metric or setting, if it is one."""
    if ":" not in key:
        return None
    from tui.views.runs.named_columns import named_column  # few tables have any

    return named_column(key)


def _texts(rows: list[RunRow], key: str, context: TableContext) -> list[str]:
    if (named := _named(key)) is not None:
        return [named.text(row, context, 400) or DASH for row in rows]
    text = table_text(key, context)
    return [text(row) for row in rows]


def _print(rows: list[RunRow], columns: list[str] | None, metric: str | None) -> None:
    context = TableContext(time.time(), metric, {row.id: row.name for row in rows})
    if columns is None:
        has_validation = any(row.validation is not None for row in rows)
        columns = [key for key in _BY_DEFAULT if key != "validation" or has_validation]
        columns += ["cost"] if any(row.cost is not None for row in rows) else []
        columns += ["tags"] if any(row.tags for row in rows) else []
        columns.append("reason")
        if 0 < terminal_width() < _ROOM_FOR_IDS:
            columns[0] = "name"
    headings = [_heading(key, rows, metric) for key in columns]
    texts = (_texts(rows, key, context) for key in columns)
    print_table(headings, list(zip(*texts, strict=True)))


def _heading(key: str, rows: list[RunRow], metric: str | None) -> str:
    from tui.views.runs.run_columns import headings_agree

    if key == "last":
        return metric or headings_agree(rows) or "last"
    if key == "progress":
        return "progress"
    return COLUMNS[key].heading if key in COLUMNS else key
