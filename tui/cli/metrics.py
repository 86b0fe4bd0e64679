"""`metrics`: a run's metrics as a table, as JSON, or as CSV."""

import argparse
import csv
import math
import re
import sys
import time
from typing import Any

from runners.cost.cost_reader import CostCurve
from runners.model.errors import WrongInput
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import find_run, read_run
from runners.watch.metrics.epoch_means import step_metric
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.series import Series, downsample
from tui.cli.output import echo, print_json, print_table
from tui.views.format import metric, place, sparkline
from tui.views.json_values import iso
from tui.views.metrics.curves import by_time
from tui.views.metrics.pinned_charts import in_order, pinned_charts

_COURSE = 24
_EVERY_S = 1.0
_HEADINGS = ("metric", "last", "at", "min", "max", "values", "from", "curve")


def run_metrics(arguments: argparse.Namespace) -> None:
    """Show a run's metrics; with --watch again whenever one is new, until the run has ended."""
    wanted = _pattern(arguments.name)
    if arguments.json and arguments.csv:
        raise WrongInput("--json and --csv: choose one")
    if arguments.last is not None and arguments.last < 1:
        raise WrongInput(f"--last {arguments.last}: expected 1 or more")
    if arguments.watch and (arguments.json or arguments.csv):
        raise WrongInput(
            "--watch shows the table", "leave out --json or --csv, or run the command again"
        )
    state = StateDirectory()
    run = find_run(state, arguments.run)
    metrics = RunMetrics(run, spent=CostCurve(state))
    while metrics.poll():
        pass
    if arguments.watch:
        _watch(state, metrics, wanted, arguments.last)
        return
    chosen = _chosen(metrics, wanted)
    if arguments.json:
        print_json(to_json(metrics, chosen, arguments.last))
    elif arguments.csv:
        _print_csv(chosen, arguments.last)
    elif chosen:
        print_table(_HEADINGS, [_row(name, chosen[name], arguments.last) for name in chosen])
    for note in metrics.notes:
        echo(note)
    if not chosen:
        echo(_nothing(run, metrics, arguments.name))


def to_json(metrics: RunMetrics, chosen: dict[str, Series], last: int | None) -> dict[str, Any]:
    """The documented JSON: series in full; NaN, infinities and what is not known are null.

    Times are unix seconds. What is measured over time alone (GPUs, cost) has no steps.
    """
    names, guessed = metrics.readers
    return {
        "run": metrics.run.id,
        "readers": list(names),
        "guessed": guessed,
        "notes": metrics.notes,
        "metrics": [
            {
                "name": name,
                "source": series.source,
                "sources": list(series.sources),
                "mean_of": step_metric(name, chosen),
                "unit": series.unit or None,
                "higher_is_better": metrics.higher(name),
                "simulated": series.simulated,
                "stages": [{"name": stage, "step": step} for step, stage in series.stages],
                "steps": None if by_time(series) else _plain(series.steps, last),
                "epochs": _plain(series.epochs, last),
                "times": _plain(series.times, last),
                "values": _plain(series.values, last),
            }
            for name, series in chosen.items()
        ],
    }


def _plain(column: Any, last: int | None) -> list[float | int | None]:
    kept = column[-last:] if last else column
    return [_json_number(x) if math.isfinite(x) else None for x in kept]


def _json_number(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _pattern(text: str | None) -> "re.Pattern[str]":
    try:
        return re.compile(text or "")
    except re.error as error:
        raise WrongInput(f"--name {text}: not a regular expression: {error}") from None


def _chosen(metrics: RunMetrics, wanted: "re.Pattern[str]") -> dict[str, Series]:
    found = metrics.series()
    sources = {name: series.source for name, series in found.items()}
    pinned = pinned_charts(RunDirectory.at(metrics.run.directory).home)
    every = in_order(sources, [metrics.run], pinned)
    return {name: found[name] for name in every if wanted.search(name)}


def _print_csv(chosen: dict[str, Series], last: int | None) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("metric", "step", "epoch", "time", "value"))
    for name, series in chosen.items():
        count = len(series)
        for i in range(max(0, count - last) if last else 0, count):
            step = math.nan if by_time(series) else series.steps[i]
            time_text = iso(series.times[i]) if series.times[i] > 0 else ""
            places = (_number(step), _number(series.epochs[i]))
            writer.writerow((name, *places, time_text, series.values[i]))


def _number(value: float) -> str:
    return f"{value:.15g}" if math.isfinite(value) else ""


def _row(name: str, series: Series, last: int | None) -> tuple[str, ...]:
    values = series.values[-last:] if last else series.values
    finite = [value for value in values if math.isfinite(value)]
    unit = f" {series.unit}" if series.unit else ""
    text = name if name.isprintable() else repr(name)
    return (
        f"{text} (simulated)" if series.simulated else text,
        f"{_value(series.last)}{unit}",
        place(None if by_time(series) else series.steps[-1]),
        metric(min(finite, default=None)),
        metric(max(finite, default=None)),
        f"{len(values):,}",
        ", ".join(series.sources),
        sparkline(_course(values), _COURSE),
    )


def _value(value: float) -> str:
    return metric(value) if math.isfinite(value) else str(value)


def _course(values: Any) -> tuple[float, ...]:
    """The values, thinned where there are many: a table has few cells for them."""
    kept = downsample(range(len(values)), values, _COURSE * 4, 0, len(values) - 1)
    return tuple(values[i] for i in kept)


def _nothing(run: Run, metrics: RunMetrics, name: str | None) -> str:
    found = metrics.series()
    if name and found:
        return f"no metric matches {name!r}; there are {', '.join(list(found)[:12])}"
    if run.started is None:
        return "no metrics: the run has not started"
    return (
        "no metrics yet: its program wrote no events.jsonl, and nothing in its output was "
        "recognised; "
        "a preset can name a reader or patterns under `metrics` (see presets/example.yaml)"
    )


def _watch(
    state: StateDirectory, metrics: RunMetrics, wanted: "re.Pattern[str]", last: int | None
) -> None:
    shown: list[tuple[str, ...]] = []
    while True:
        run = read_run(state, metrics.run.id)
        more = metrics.poll(run)
        chosen = _chosen(metrics, wanted)
        rows = [_row(name, series, last) for name, series in chosen.items()]
        if rows and rows != shown:
            shown = rows
            print(time.strftime("%H:%M:%S"))
            print_table(_HEADINGS, rows)
            print(flush=True)
        if more:
            continue
        if not run.is_live:
            return
        time.sleep(_EVERY_S)
