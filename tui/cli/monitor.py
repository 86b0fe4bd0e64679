"""`monitor`: everything at a glance for scripts and mail: session, GPUs, host, live runs, disks."""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runners.cost.cost_reader import costs_of
from runners.cost.meter import Meter, read_meter
from runners.cost.run_costs import Costs
from runners.gpus.client import read_gpus
from runners.gpus.host_metrics import HostMeter
from runners.guard.rule import read_guard
from runners.host.clock import local_time
from runners.housekeeping import tend
from runners.model.gpus import GpuReading, HostSnapshot
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.leases import held_leases
from runners.state.runs import list_runs
from runners.watch.metrics.judging import validation_metric
from tui.cli.gpus import host_text, print_reading, reading_json
from tui.cli.output import control, print_json, print_pairs, print_table
from tui.views.format import DASH, dollars, duration, metric, size
from tui.views.health.health_text import health_remark
from tui.views.log_lines import last_lines
from tui.views.money.money_text import meter_json, session_pairs
from tui.views.runs.plan_text import gpu_numbers
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import RunView, view_run

_CLEAR = "\x1b[H\x1b[2J"


class _Glance(NamedTuple):
    """Everything at one moment; the last `lines` of each live run are shown."""

    views: list[RunView]
    meter: Meter
    costs: Costs
    reading: GpuReading
    host: HostSnapshot
    lines: int


def run_monitor(arguments: argparse.Namespace) -> None:
    """Print it once, or every few seconds until interrupted."""
    state = StateDirectory().create()
    meter = HostMeter(state.root)
    meter.read()  # the first reading of the CPU has no interval to be the mean of
    while True:
        tend(state)
        # None of the ended ones is read: there may be thousands.
        live = [run for run in list_runs(state, 0) if run.is_live]
        costs = costs_of(state, live)
        views = [view_run(run, costs=costs) for run in live]
        reading = read_gpus(state)
        host = reading.cpu if reading.cpu.cpu_percent is not None else meter.read()
        glance = _Glance(views, read_meter(live, costs), costs, reading, host, arguments.lines)
        if arguments.json:
            print_json(_json(state, glance))
        else:
            # In a file or a mail the readings stand one below the other.
            if arguments.watch and sys.stdout.isatty():
                control(_CLEAR)
            _print(state, glance)
        if not arguments.watch:
            return
        sys.stdout.flush()
        time.sleep(arguments.every)


def disks_of(view: RunView) -> list[dict[str, Any]]:
    """The disks that the run's folder and its checkpoints lie on, each once: path, free, total."""
    folders = [Path(view.run.directory)]
    if view.checkpoint is not None:
        folders.append(Path(view.checkpoint.path).parent)
    found: dict[int, dict[str, Any]] = {}
    for folder in folders:
        try:
            device = folder.stat().st_dev
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        found.setdefault(
            device, {"path": str(folder), "free_bytes": usage.free, "total_bytes": usage.total}
        )
    return list(found.values())


def _json(state: StateDirectory, glance: _Glance) -> dict[str, Any]:
    views, meter, costs, reading, host, lines = glance
    value = reading_json(reading, held_leases(state))
    value["cpu"] = msgspec.to_builtins(host)
    value["session"] = None if costs.session is None else meter_json(meter, costs.session)
    value["runs"] = [
        to_json(view)
        | {"last_lines": last_lines(state.run(view.run.id).output, lines), "disks": disks_of(view)}
        for view in views
    ]
    return value


def _print(state: StateDirectory, glance: _Glance) -> None:
    views, meter, costs, reading, host, lines = glance
    stamp = local_time(reading.time or time.time(), "%Y-%m-%d %H:%M:%S")
    print(f"{reading.host}  {stamp}")
    if costs.session is None:
        print("no session")
    else:
        print_pairs(session_pairs(meter, costs.session, costs.now, read_guard(state)))
    free = f"{size(host.disk_free)} free of {size(host.disk_total)}"
    print(f"{host_text(host)}, disk {free}")
    if reading.problem:
        print(f"GPUs: {reading.problem}")
    print()
    print_reading(reading, held_leases(state), False)
    if not views:
        print("no live runs")
        return
    print()
    print_table(
        ("run", "state", "GPUs", "progress", "metric", "ETA", "cost"), [_row(v) for v in views]
    )
    for view in views:
        print(f"\n{view.run.id}")
        for disk in disks_of(view):
            print(
                f"  disk of {disk['path']}: {size(disk['free_bytes'])} free of "
                f"{size(disk['total_bytes'])}"
            )
        if remark := health_remark(view.health):
            print(f"  {remark}")
        for line in last_lines(state.run(view.run.id).output, lines):
            print(f"  │ {line[:200]}")


def _without(run: Run) -> str:
    """What a run computes on that has no GPU: the CPU, and nothing while it waits."""
    return DASH if run.state is State.QUEUED else "cpu"


def _row(view: RunView) -> tuple[str, ...]:
    run, fraction = view.run, view.progress.fraction
    beside = dict.fromkeys((validation_metric(run, view.metrics), view.headline))
    named = ", ".join(f"{name} {metric(view.metrics.get(name))}" for name in beside if name)
    return (
        run.id,
        f"{run.state.sign} {run.state}",
        (gpu_numbers(run.plan) if run.plan else "") or _without(run),
        DASH if fraction is None else f"{fraction:.0%}",
        named or DASH,
        duration(view.progress.eta_s),
        dollars(view.money.cost),
    )
