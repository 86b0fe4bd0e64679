"""What stands on the screen of machines: a heading for each, a line for each run."""

import time
from decimal import Decimal

from rich.text import Text

from runners.host.clock import Moment
from runners.model.gpus import GpuSnapshot, HostSnapshot
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.link import LinkState
from tui.panel.remote.links import LinkedHost
from tui.panel.theme.palette import bar
from tui.views.format import DASH, dollars, duration, indices, memory, metric, percent, size
from tui.views.machines.remote_text import link_text, offset_text
from tui.views.money.guard_text import guard_text
from tui.views.safe import safe_cell

_MOST_GPUS = 8
_SIGNS = {LinkState.UP: "●", LinkState.CONNECTING: "◌", LinkState.DOWN: "○"}
_STYLES = {LinkState.UP: "green", LinkState.CONNECTING: "cyan", LinkState.DOWN: "yellow bold"}


def here_heading(snapshot: PlaceSnapshot, width: int) -> Text:
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
    return _described(text, one.snapshot, width, not one.is_reached, one.clock_offset)


def _described(
    text: Text, snapshot: PlaceSnapshot, width: int, dim: bool, clock_offset: float = 0.0
) -> Text:
    style, meter = "dim" if dim else "", snapshot.meter
    cpu = snapshot.reading.cpu if snapshot.reading is not None else HostSnapshot()
    parts = [f"{sum(row.is_live for row in snapshot.runs.values())} live"]
    if meter.per_hour is not None:
        parts.append(f"{dollars(meter.per_hour)}/h")
    if meter.spent is not None:
        idle = f" (idle {dollars(meter.idle)})" if meter.idle else ""
        parts.append(f"spent {dollars(meter.spent)}{idle}")
    if meter.budget_left is not None:
        parts.append(f"{dollars(meter.budget_left)} left")
    if cpu.disk_free is not None:
        parts.append(f"{size(cpu.disk_free)} free")
    text.append(f"  {' · '.join(parts)}", style=style)
    guard = snapshot.guard
    if guard is not None and guard.is_urgent:
        words = guard_text(guard, Moment(time.time() + clock_offset))
        text.append(f"\n  ⚠ {safe_cell(words)}", style="yellow bold")
    cells = [_gpu_cell(gpu, bool(snapshot.leases.get(gpu.uuid))) for gpu in snapshot.gpus]
    per_line = max(1, (width - 4) // 30)
    for i in range(0, len(cells), per_line):
        text.append(f"\n  {'  '.join(cells[i : i + per_line])}", style=style)
    if not cells:
        problem = (snapshot.reading.problem if snapshot.reading else None) or "no GPU"
        text.append(f"\n  {safe_cell(problem)}; CPU {percent(cpu.cpu_percent)}", style=style)
    text.no_wrap, text.overflow = False, "fold"
    return text


def _gpu_cell(gpu: GpuSnapshot, is_held: bool) -> str:
    if gpu.error:
        return f"{gpu.index} ⚠ {safe_cell(gpu.error)}"[:28].ljust(28)
    use = None if gpu.utilization is None else gpu.utilization / 100
    heat = DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°"
    name = "sim" if gpu.simulated else ""
    mark = "▸" if is_held else " "
    words = (
        f"{gpu.index}{mark}{bar(use, 5)} {percent(gpu.utilization):>4} {memory(gpu.memory_used)}"
    )
    return f"{words} {heat} {name}".ljust(28)


def run_line(run: RunRow, now: float, dim: bool, names: int) -> Text:
    """One run: state, name in `names` cells, GPUs, how far, how well, until when, for how much."""
    style = "dim" if dim else ""
    text = Text("  ")
    text.append(f"{run.state.sign} {run.state:<9}", style="dim" if dim else run.state.style)
    text.append(f" {safe_cell(run.name or run.id)[:names]:<{names}}", style=style)
    words = [indices(list(run.gpus)) or "cpu"]
    if run.fraction is not None:
        words.append(f"{run.fraction:.0%}")
    if run.last is not None:
        words.append(f"{run.headline} {metric(run.last)} {run.spark}".rstrip())
    if run.is_live and run.eta_s is not None:
        words.append(f"ETA {duration(run.eta_s)}")
    if run.cost is not None:
        words.append(dollars(Decimal(str(run.cost))))
    if not run.is_live and run.ended is not None:
        words.append(f"{duration(max(0.0, now - run.ended))} ago")
    text.append(f" {'  '.join(words)}", style=style)
    if run.remark:
        text.append(
            f"  {safe_cell(run.remark)}", style="yellow" if run.urgent and not dim else "dim"
        )
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def totals(snapshots: list[PlaceSnapshot]) -> str:
    """What all machines together cost and do."""
    rates = [one.meter.per_hour for one in snapshots if one.meter.per_hour is not None]
    spent = [one.meter.spent for one in snapshots if one.meter.spent is not None]
    live = sum(run.is_live for one in snapshots for run in one.runs.values())
    parts = [f"{live} live"]
    parts += [f"{dollars(sum(rates, Decimal(0)))}/h"] if rates else []
    parts += [f"spent {dollars(sum(spent, Decimal(0)))}"] if spent else []
    return " · ".join(parts)


def machine_time(one: LinkedHost) -> float:
    """The time now by the clock of a machine."""
    return time.time() + one.clock_offset
