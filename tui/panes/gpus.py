"""The GPU pane: a line per GPU with its use, its memory and the run that holds it; the host where there is none."""

import time

from rich.text import Text
from textual.scroll_view import ScrollView
from textual.strip import Strip

from runners.model.gpus import GpuReading, GpuSnapshot, HostSnapshot
from runners.placement.reading import is_stale
from tui.feed import Picture
from tui.format import DASH, memory, percent, size
from tui.palette import bar, run_colour
from tui.panes.rows import refresh_rows, strip_of

_MEDIUM, _WIDE, _NAMED = 40, 54, 64
"""Content widths from which a row shows temperature and power, the memory bar, and the GPU's name."""


class GpuPane(ScrollView):
    """GPUs and who holds them; logical device numbers stand behind the run's letter."""

    can_focus = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture: Picture | None = None
        self._rows: list[Text] = [Text("reading…", style="dim")]

    def show(self, picture: Picture) -> None:
        """Take in a new picture; only rows that changed are painted."""
        self.picture = picture
        reading = picture.reading
        titles = _titles(reading)
        if titles != (self.border_title, self.border_subtitle):
            self.border_title, self.border_subtitle = titles
        self._lay_out()

    def on_resize(self) -> None:
        """Lay the columns out anew."""
        self._lay_out()

    def render_line(self, y: int) -> Strip:
        """One row."""
        return strip_of(self._rows, y + round(self.scroll_offset.y), self.scrollable_content_region.width, self)

    def _lay_out(self) -> None:
        picture = self.picture
        if picture is None or picture.reading is None:
            return
        reading = picture.reading
        rows = [self._row(picture, gpu) for gpu in reading.gpus] or self._host_rows(reading.cpu)
        if reading.problem:
            rows.insert(0, Text(f"⚠ {reading.problem}", style="yellow"))
        before, self._rows = self._rows, rows
        refresh_rows(self, before, rows)

    def _row(self, picture: Picture, gpu: GpuSnapshot) -> Text:
        width = self.scrollable_content_region.width
        row = Text(f"{gpu.index:>2} ")
        if gpu.error:
            return row.append(f"⚠ {gpu.error}", style="red")
        if width >= _NAMED:
            row.append(f"{_short_name(gpu.name):<9.9} ")
        fraction = None if gpu.utilization is None else gpu.utilization / 100
        row.append(bar(fraction, 8 if width >= _WIDE else 4), style="green")
        row.append(f"{percent(gpu.utilization):>5} ")
        row.append(self._memory(gpu, width))
        if width >= _MEDIUM:
            heat = DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°"
            row.append(f"{heat:>4} ")
        if width >= _MEDIUM:
            power = DASH if gpu.power_w is None else f"{gpu.power_w:.0f}W"
            row.append(f"{power:>5} ")
        return row.append_text(_holder(picture, gpu, width))

    def _memory(self, gpu: GpuSnapshot, width: int) -> str:
        used, total = gpu.memory_used, gpu.memory_total
        if width >= _WIDE:
            fraction = used / total if used is not None and total else None
            return f"{bar(fraction, 6)} {memory(used):>6}/{memory(total):<5} "
        return f"{memory(used):>6} "

    def _host_rows(self, host: HostSnapshot) -> list[Text]:
        wide = max(6, min(24, self.scrollable_content_region.width - 24))
        cpu = None if host.cpu_percent is None else host.cpu_percent / 100
        used = host.memory_used / host.memory_total if host.memory_used and host.memory_total else None
        disk = 1 - host.disk_free / host.disk_total if host.disk_free and host.disk_total else None
        load = DASH if host.load_1m is None else f"{host.load_1m:.2f}"
        return [
            Text(
                f"CPU    {bar(cpu, wide)} {percent(host.cpu_percent)} of {host.cpu_count or DASH} cores",
                no_wrap=True,
            ),
            Text(f"memory {bar(used, wide)} {memory(host.memory_used)}/{memory(host.memory_total)}", no_wrap=True),
            Text(f"disk   {bar(disk, wide)} {size(host.disk_free)} free", no_wrap=True),
            Text(f"load   {load}   runs use the CPU", style="dim", no_wrap=True),
        ]


def _titles(reading: GpuReading | None) -> tuple[str, str | None]:
    """What stands in the border: what is simulated or missing, and since when readings are stale."""
    if reading is None:
        return "GPUs", None
    title = "GPUs"
    if any(gpu.simulated for gpu in reading.gpus):
        title = "GPUs · simulated"
    elif not reading.gpus:
        title = "CPU · no GPU here"
    stale = is_stale(reading)
    return title, f"stale since {time.strftime('%H:%M:%S', time.localtime(reading.time))}" if stale else None


def _holder(picture: Picture, gpu: GpuSnapshot, width: int) -> Text:
    leases = picture.leases.get(gpu.uuid, [])
    text = Text()
    for lease in leases:
        letter = picture.letters.get(lease.run, "")
        name = f" {lease.preset}" if width >= 80 and len(leases) == 1 else ""
        text.append(f" {letter}:{lease.logical}{name}", style=f"{run_colour(letter)} bold")
    others = [process for process in gpu.processes if process.run is None and not gpu.simulated]
    if others:
        text.append(f" ⚠ {others[0].user or 'outside'} pid {others[0].pid}", style="yellow")
    elif not leases:
        text.append(" free", style="dim")
    return text


def _short_name(name: str) -> str:
    for word in ("NVIDIA ", "GeForce ", "AMD ", "Instinct ", "Radeon "):
        name = name.replace(word, "")
    return name


def describe_reading(reading: GpuReading | None) -> str:
    """One line about what was read, for dialogs."""
    if reading is None or not reading.gpus:
        return "no GPU here: runs use the CPU"
    return f"{len(reading.gpus)} × {reading.gpus[0].name}" + (" (simulated)" if reading.gpus[0].simulated else "")
