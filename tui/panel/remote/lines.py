"""What stands on the screen of machines: a heading for each, a line for each run."""

import time
from decimal import Decimal

from rich.text import Text

from runners.model.states import State
from runners.places.ssh.link import LinkState
from runners.places.ssh.snapshot import RemoteGpu, RemoteRun, RemoteSnapshot
from tui.panel.remote.links import LinkedHost
from tui.panel.theme.palette import bar
from tui.views.format import DASH, dollars, duration, indices, memory, metric, percent, size
from tui.views.machines.remote_text import link_text, offset_text
from tui.views.metrics.sparkline import sparkline
from tui.views.safe import safe_cell

_MOST_GPUS = 8
_SIGNS = {LinkState.UP: "●", LinkState.CONNECTING: "◌", LinkState.DOWN: "○"}
_STYLES = {LinkState.UP: "green", LinkState.CONNECTING: "cyan", LinkState.DOWN: "yellow bold"}


def here_heading(snapshot: RemoteSnapshot, width: int) -> Text:
    """The heading of this machine."""
    text = Text("● ", style="green")
    text.append(f"{snapshot.host} (here)", style="bold")
    return _described(text, snapshot, width, dim=False)


def host_heading(one: LinkedHost, width: int) -> Text:
    """The heading of another: its link, and what it showed last; greyed while not reached."""
    status = one.status
    text = Text(f"{_SIGNS[status.state]} ", style=_STYLES[status.state])
    text.append(one.name, style="bold")
    words = "" if status.state is LinkState.UP else link_text(status)
    for part in (words, offset_text(status.clock_offset), one.problem):
        if part:
            text.append(f"  {safe_cell(part)}", style=_STYLES[status.state] if words else "yellow")
    if one.snapshot is None:
        return text
    return _described(text, one.snapshot, width, dim=not one.is_reached)


def _described(text: Text, snapshot: RemoteSnapshot, width: int, dim: bool) -> Text:
    style = "dim" if dim else ""
    live = sum(run.live for run in snapshot.runs.values())
    parts = [f"{live} live"]
    if snapshot.per_hour is not None:
        parts.append(f"{dollars(Decimal(snapshot.per_hour))}/h")
    if snapshot.spent is not None:
        idle = f" (idle {dollars(Decimal(snapshot.idle))})" if snapshot.idle else ""
        parts.append(f"spent {dollars(Decimal(snapshot.spent))}{idle}")
    if snapshot.budget_left is not None:
        parts.append(f"{dollars(Decimal(snapshot.budget_left))} left")
    if snapshot.disk_free is not None:
        parts.append(f"{size(snapshot.disk_free)} free")
    text.append(f"  {' · '.join(parts)}", style=style)
    if snapshot.guard:
        text.append(f"\n  ⚠ {safe_cell(snapshot.guard)}", style="yellow bold")
    gpus = list(snapshot.gpus.values())
    for i in range(0, len(gpus), per_line := max(1, (width - 4) // 30)):
        cells = [_gpu_cell(gpu) for gpu in gpus[i : i + per_line]]
        text.append(f"\n  {'  '.join(cells)}", style=style)
    if not gpus:
        said = snapshot.gpu_problem or "no GPU"
        cpu = percent(snapshot.cpu_percent)
        text.append(f"\n  {safe_cell(said)}; CPU {cpu}", style=style)
    text.no_wrap, text.overflow = False, "fold"
    return text


def _gpu_cell(gpu: RemoteGpu) -> str:
    if gpu.error:
        return f"{gpu.index} ⚠ {safe_cell(gpu.error)}"[:28].ljust(28)
    use = None if gpu.utilization is None else gpu.utilization / 100
    heat = DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°"
    name = "sim" if gpu.simulated else ""
    mark = "▸" if gpu.runs else " "
    words = (
        f"{gpu.index}{mark}{bar(use, 5)} {percent(gpu.utilization):>4} {memory(gpu.memory_used)}"
    )
    return f"{words} {heat} {name}".ljust(28)


def run_line(run: RemoteRun, now: float, dim: bool, names: int) -> Text:
    """One run: state, name in `names` cells, GPUs, how far, how well, until when, for how much."""
    try:
        state = State(run.state)
    except ValueError:  # a state that a newer version has
        state = State.LOST
    style = "dim" if dim else ""
    text = Text("  ")
    text.append(f"{state.sign} {run.state:<9}", style="dim" if dim else state.style)
    text.append(f" {safe_cell(run.name or run.id)[:names]:<{names}}", style=style)
    words = [indices(list(run.gpus)) or "cpu"]
    if run.fraction is not None:
        words.append(f"{run.fraction:.0%}")
    if run.value is not None:
        curve = sparkline(run.trend, 6)
        words.append(f"{run.headline} {metric(run.value)}{f' {curve}' if curve else ''}")
    if run.live and run.eta_s is not None:
        words.append(f"ETA {duration(run.eta_s)}")
    if run.cost is not None:
        words.append(dollars(Decimal(run.cost)))
    if not run.live and run.ended is not None:
        words.append(f"{duration(max(0.0, now - run.ended))} ago")
    text.append(f" {'  '.join(words)}", style=style)
    if run.asks or run.alert or run.reason:
        said = f"asks: {run.asks}" if run.asks else run.alert or run.reason
        text.append(f"  {safe_cell(said)}", style="dim" if dim or not run.alert else "yellow")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def totals(snapshots: list[RemoteSnapshot]) -> str:
    """What all machines together cost and do."""
    rates = [Decimal(one.per_hour) for one in snapshots if one.per_hour is not None]
    spent = [Decimal(one.spent) for one in snapshots if one.spent is not None]
    live = sum(run.live for one in snapshots for run in one.runs.values())
    parts = [f"{live} live"]
    parts += [f"{dollars(sum(rates, Decimal(0)))}/h"] if rates else []
    parts += [f"spent {dollars(sum(spent, Decimal(0)))}"] if spent else []
    return " · ".join(parts)


def machine_time(one: LinkedHost) -> float:
    """The time now by the clock of a machine."""
    return time.time() + (one.status.clock_offset or 0.0)
