"""The GPU pane: a line per GPU with its use, its memory and the run that holds it; the host where there is none."""

import time

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from runners.model.gpus import GpuReading, GpuSnapshot, HostSnapshot
from runners.placement.reading import is_stale
from tui.feed import Picture
from tui.format import DASH, memory, percent, size
from tui.palette import bar, run_colour

_MEDIUM, _WIDE, _NAMED = 40, 54, 64
"""Content widths from which a row shows temperature and power, the memory bar, and the GPU's name."""


class GpuPane(Widget):
    """GPUs and who holds them; logical device numbers stand behind the run's letter."""

    can_focus = True
    picture: reactive[Picture | None] = reactive(None, layout=False)

    def watch_picture(self) -> None:
        """Say in the title what is simulated, stale or wrong."""
        reading = self.picture.reading if self.picture else None
        self.border_title = "GPUs"
        self.border_subtitle = None
        if reading is None:
            return
        if any(gpu.simulated for gpu in reading.gpus):
            self.border_title = "GPUs · simulated"
        elif not reading.gpus:
            self.border_title = "CPU · no GPU here"
        if is_stale(reading):
            self.border_subtitle = f"stale since {time.strftime('%H:%M:%S', time.localtime(reading.time))}"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A line per GPU, and one for a problem."""
        reading = self.picture.reading if self.picture else None
        if reading is None:
            return 4
        return max(4, len(reading.gpus)) + (1 if reading.problem else 0)

    def render(self) -> Text:
        """All rows."""
        picture = self.picture
        if picture is None or picture.reading is None:
            return Text("reading…", style="dim")
        reading = picture.reading
        rows = [self._row(picture, gpu) for gpu in reading.gpus] or self._host_rows(reading.cpu)
        if reading.problem:
            rows.insert(0, Text(f"⚠ {reading.problem}", style="yellow"))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(rows)

    def _row(self, picture: Picture, gpu: GpuSnapshot) -> Text:
        width = self.content_size.width
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
        wide = max(6, min(24, self.content_size.width - 24))
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
