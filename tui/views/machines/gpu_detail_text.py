"""Everything about one GPU as names and values; what is not known is left out."""

from collections.abc import Callable, Sequence

from runners.host.clock import age, local_time
from runners.model.gpus import GpuDetail, GpuProcess, GpuSnapshot
from runners.scheduling.allocation import obstacle
from tui.views.format import DASH, duration, fitted, memory, percent, size
from tui.views.machines.gpu_text import instances_of, strangers

Fact = tuple[str, str]


def launch_facts(gpu: GpuSnapshot, gpus: Sequence[GpuSnapshot]) -> list[Fact]:
    """Whether a launch would be put on a GPU that no run holds: `free`, or why not."""
    against = obstacle(gpu, gpus)
    return [("launch", f"⚠ not put here: {against}" if against else "free")]


def power_facts(gpu: GpuSnapshot) -> list[Fact]:
    """Power, heat, clocks, and what holds them down."""
    detail = gpu.detail or GpuDetail()
    watts = f"{_with(gpu.power_w, ' W')} of {_with(gpu.power_limit_w, ' W')}"
    clocks = f"{_with(gpu.clock_mhz, ' MHz')}, memory {_with(gpu.memory_clock_mhz, ' MHz')}"
    state = f", state {detail.state}" if detail.state else ""
    facts = [("power", watts), ("heat", _heat(gpu, detail)), ("clocks", clocks + state)]
    facts.append(("throttling", ", ".join(gpu.throttle) or "no"))
    if detail.fan_percent is not None:
        facts.append(("fan", f"{detail.fan_percent:.0f} %"))
    return facts


def health_facts(gpu: GpuSnapshot) -> list[Fact]:
    """Memory errors, repairs of memory, and the last Xid where the maker has them."""
    detail = gpu.detail or GpuDetail()
    counts = f"{DASH if gpu.ecc_errors is None else gpu.ecc_errors} uncorrected"
    if detail.ecc_corrected is not None:
        counts += f", {detail.ecc_corrected} corrected"
    facts = [("ECC", f"{counts} errors since driver start")]
    if detail.rows_remapped is not None:
        facts.append(("repairs", _repairs(detail, gpu.traits.repairs)))
    if gpu.traits.reports_xid and not gpu.simulated:
        facts.append(("last Xid", _last_xid(gpu)))
    return facts


def place_facts(gpu: GpuSnapshot, gpus: Sequence[GpuSnapshot]) -> list[Fact]:
    """Its links and their traffic, mode, address, and what it is part of."""
    detail = gpu.detail or GpuDetail()
    facts = [("PCIe", _pcie(gpu, detail))]
    if detail.link is not None:
        facts.append((detail.link, _traffic(detail.link_bytes_s) or "traffic not known yet"))
    if detail.compute_mode is not None:
        facts.append(("compute", f"{detail.compute_mode} mode"))
    facts.append(("UUID", gpu.uuid))
    if gpu.mig_parent:
        facts.append(("part of", f"GPU {gpu.index}, {gpu.mig_parent}"))
    elif gpu.partition:
        facts.append(("part", f"{gpu.partition} of the card at {gpu.pci or DASH}"))
    elif instances_of(gpu, gpus):
        facts.append(("MIG", f"{instances_of(gpu, gpus)} instances: programs are given those"))
    return facts


def process_rows(
    gpu: GpuSnapshot, held: bool, name: Callable[[str], str], now: float
) -> list[tuple[str, GpuProcess]]:
    """A line for each process, ours first, then by memory; `name` gives a run's name. Its command
    is for lines of its own.
    """
    unknown = strangers(gpu, held)
    ordered = sorted(
        gpu.processes, key=lambda process: (process.run is None, -(process.memory_used or 0))
    )
    rows = []
    for process in ordered:
        whose = name(process.run) if process.run else ""
        if process in unknown:
            whose = "not ours"
        since = None if process.started is None else age(process.started, now)
        cells = (
            whose,
            str(process.pid),
            "outside" if process.outside else process.user or DASH,
            duration(since),
            memory(process.memory_used),
            percent(process.utilization),
        )
        rows.append((_row(cells), process))
    return rows


def process_heading() -> str:
    """The headings over `process_rows`."""
    return _row(("run", "pid", "user", "age", "VRAM", "use"))


def _row(cells: Sequence[str]) -> str:
    run, pid, user, age, used, busy = cells
    names = f"{fitted(run, 20)} {pid:>8} {fitted(user, 12)}"
    return f"{names} {age:>7} {used:>7} {busy:>5}"


def _heat(gpu: GpuSnapshot, detail: GpuDetail) -> str:
    more = (("hot spot", detail.hotspot_c), ("memory", detail.memory_c))
    parts = [f"{name} {value:.0f}°" for name, value in more if value is not None]
    return _with(gpu.temperature_c, "°") + (f" ({', '.join(parts)})" if parts else "")


def _repairs(detail: GpuDetail, what: str) -> str:
    parts = [f"{detail.rows_remapped} {what}"]
    if detail.rows_pending:
        parts.append("⚠ one more waits for a reset")
    if detail.rows_failed:
        parts.append("⚠ no spare row is left: have the GPU replaced")
    return ", ".join(parts)


def _pcie(gpu: GpuSnapshot, detail: GpuDetail) -> str:
    parts = [gpu.pci or DASH]
    if detail.pcie_generation and detail.pcie_width:
        now = detail.pcie_generation, detail.pcie_width
        most = detail.pcie_most_generation or now[0], detail.pcie_most_width or now[1]
        of = f" of {most[0]} ×{most[1]}" if most != now else ""
        parts.append(f"generation {now[0]} ×{now[1]}{of}")
    traffic = _traffic(detail.pcie_bytes_s)
    return " · ".join([*parts, traffic] if traffic else parts)


def _traffic(rate: float | None) -> str:
    return "" if rate is None else f"{size(rate)}/s"


def _last_xid(gpu: GpuSnapshot) -> str:
    if gpu.xid is None:
        return "none seen"
    moment = local_time(gpu.xid.time, "%d %b %H:%M:%S")
    return f"{gpu.xid.code} on {moment}: {gpu.xid.meaning}"


def _with(value: float | int | None, unit: str) -> str:
    return DASH if value is None else f"{value:.0f}{unit}"
