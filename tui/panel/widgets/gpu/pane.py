"""The GPU pane: a line per GPU with its use, its memory and the run that holds it; the host where
there is none.
"""

import textwrap
import time
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip

from runners.gpus.client import is_stale
from runners.model.gpus import GpuProcess, GpuReading, GpuSnapshot, HostSnapshot
from runners.state.layout import StateDirectory
from tui.panel.feed import PanelSnapshot
from tui.panel.theme.palette import bar, run_colour
from tui.panel.widgets.rows import refresh_rows, strip_of
from tui.views.format import DASH, memory, percent, size
from tui.views.gpu_text import instance_number, instances_of, strangers, trouble

_MEDIUM, _WIDE, _NAMED = 40, 54, 64
"""Content widths from which a row shows temperature and power, the memory bar, and the GPU's
name.
"""


class GpuPane(ScrollView):
    """GPUs and who holds them; logical device numbers stand behind the run's letter. Enter shows
    one in full.
    """

    can_focus = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("home,g", "move(-100000)", "First", show=False),
        Binding("end,G", "move(100000)", "Last", show=False),
        Binding("enter", "open", "Details", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture: PanelSnapshot | None = None
        self._rows: list[Text] = [Text("reading…", style="dim")]
        self._above = 0
        self._selected = ""

    def show(self, picture: PanelSnapshot) -> None:
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
        row = y + round(self.scroll_offset.y)
        base = None
        if self.has_focus and self._gpus and row == self._above + self.cursor:
            base = self.rich_style + Style(reverse=True)
        return strip_of(self._rows, row, self.scrollable_content_region.width, self, base)

    @property
    def _gpus(self) -> tuple[GpuSnapshot, ...]:
        return self.picture.reading.gpus if self.picture and self.picture.reading else ()

    @property
    def cursor(self) -> int:
        """The number, from 0, of the GPU under the cursor among all that are shown."""
        return next((i for i, gpu in enumerate(self._gpus) if gpu.uuid == self._selected), 0)

    def action_move(self, rows: int) -> None:
        """Move the cursor by `rows`."""
        gpus = self._gpus
        if gpus:
            target = min(len(gpus) - 1, max(0, self.cursor + rows))
            self._selected = gpus[target].uuid
            self.scroll_to_region(Region(0, self._above + target, 1, 1), animate=False)
            self.refresh()

    def action_open(self) -> None:
        """Show everything about the GPU under the cursor."""
        from tui.panel.screens.gpu_detail import GpuDetailScreen

        reading = self.picture.reading if self.picture else None
        if reading is not None and (reading.gpus or reading.problem):
            uuid = self._gpus[self.cursor].uuid if self._gpus else ""
            self.app.push_screen(GpuDetailScreen(StateDirectory(), lambda: self.picture, uuid))

    def on_click(self, event: events.Click) -> None:
        """Select the GPU that was clicked."""
        offset = event.get_content_offset(self)
        row = (offset.y if offset else -1) + round(self.scroll_offset.y) - self._above
        if 0 <= row < len(self._gpus):
            self._selected = self._gpus[row].uuid
            self.refresh()

    def on_focus(self) -> None:
        """The cursor shows."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor goes."""
        self.refresh()

    def _lay_out(self) -> None:
        picture = self.picture
        if picture is None or picture.reading is None:
            return
        reading = picture.reading
        rows = [self._row(picture, gpu) for gpu in reading.gpus] or self._host_rows(reading.cpu)
        # The scroll bar may come with these very rows.
        width = self.scrollable_content_region.width - (not self.show_vertical_scrollbar)
        problem = _problem_rows(reading.problem, width)
        self._above = len(problem)
        rows = problem + rows
        before, self._rows = self._rows, rows
        refresh_rows(self, before, rows)

    def _row(self, picture: PanelSnapshot, gpu: GpuSnapshot) -> Text:
        width = self.scrollable_content_region.width
        number = instance_number(gpu, self._gpus)
        label = f"{gpu.index:>2} " if number is None else f"└{number} "
        if gpu.error:
            return Text(label).append(f"⚠ {gpu.error}", style="red")
        name = f"{_short_name(gpu.name):<9.9} " if width >= _NAMED else ""
        fraction = None if gpu.utilization is None else gpu.utilization / 100
        use = f"{bar(fraction, 8 if width >= _WIDE else 4)}{percent(gpu.utilization):>5} "
        # In one colour up to here: over SSH a change of colour takes more bytes than the numbers
        # that changed.
        row = Text().append(f"{label}{name}{use}", style="green")
        row.append(self._memory(gpu, width))
        if width >= _MEDIUM:
            heat = DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°"
            row.append(f"{heat:>4} ")
        if width >= _MEDIUM:
            power = DASH if gpu.power_w is None else f"{gpu.power_w:.0f}W"
            row.append(f"{power:>5} ")
        instances = instances_of(gpu, self._gpus)
        if instances:
            row.append(f" {instances} MIG", style="dim")
        row.append_text(_holder(picture, gpu, width, width - row.cell_len, free=not instances))
        return row

    def _memory(self, gpu: GpuSnapshot, width: int) -> str:
        used, total = gpu.memory_used, gpu.memory_total
        if width >= _WIDE:
            fraction = used / total if used is not None and total else None
            return f"{bar(fraction, 6)} {memory(used):>6}/{memory(total):<5} "
        return f"{memory(used):>6} "

    def _host_rows(self, host: HostSnapshot) -> list[Text]:
        wide = max(6, min(24, self.scrollable_content_region.width - 24))
        cpu = None if host.cpu_percent is None else host.cpu_percent / 100
        used = (
            host.memory_used / host.memory_total if host.memory_used and host.memory_total else None
        )
        disk = 1 - host.disk_free / host.disk_total if host.disk_free and host.disk_total else None
        load = DASH if host.load_1m is None else f"{host.load_1m:.2f}"
        return [
            Text(
                f"CPU    {bar(cpu, wide)} {percent(host.cpu_percent)} of "
                f"{host.cpu_count or DASH} cores",
                no_wrap=True,
            ),
            Text(
                f"memory {bar(used, wide)} {memory(host.memory_used)}/{memory(host.memory_total)}",
                no_wrap=True,
            ),
            Text(f"disk   {bar(disk, wide)} {size(host.disk_free)} free", no_wrap=True),
            Text(f"load   {load}   runs use the CPU", style="dim", no_wrap=True),
        ]


def _titles(reading: GpuReading | None) -> tuple[str, str | None]:
    """What stands in the border: what is simulated or missing, and since when readings are
    stale.
    """
    if reading is None:
        return "GPUs", None
    title = "GPUs"
    if any(gpu.simulated for gpu in reading.gpus):
        title = "GPUs · simulated"
    elif not reading.gpus:
        title = "CPU · no GPU here"
    stale = is_stale(reading)
    return (
        title,
        f"stale since {time.strftime('%H:%M:%S', time.localtime(reading.time))}" if stale else None,
    )


def _problem_rows(problem: str | None, width: int) -> list[Text]:
    """What is wrong and what to do about it, in as many rows as it takes to be read: at most
    four.
    """
    if not problem or width < 4:
        return []
    lines = textwrap.wrap(f"⚠ {problem}", width, max_lines=4, placeholder="…")
    return [Text(line, style="yellow") for line in lines]


def _holder(picture: PanelSnapshot, gpu: GpuSnapshot, width: int, room: int, free: bool) -> Text:
    leases = picture.leases.get(gpu.uuid, [])
    text = Text()
    for lease in leases:
        letter = picture.letters.get(lease.run, "")
        name = f" {lease.preset}" if width >= 80 and len(leases) == 1 else ""
        text.append(f" {letter}:{lease.logical}{name}", style=f"{run_colour(letter)} bold")
    others = strangers(gpu, bool(leases))
    wrong = trouble(gpu, room - text.cell_len - 1)
    if wrong:
        text.append(f" {wrong}", style="yellow")
    if others:
        text.append(f" ⚠ {_named(others, width)}", style="yellow")
    elif not leases and free:
        text.append(" free", style="dim")
    return text


def _named(others: list[GpuProcess], width: int) -> str:
    """Whose processes these are: who, pid and command of the first, and how many more."""
    first, more = others[0], f" +{len(others) - 1}" if len(others) > 1 else ""
    who = f"{first.user or 'outside'} pid {first.pid}{more}"
    return f"{who} {first.command}" if first.command and width >= _NAMED else who


def _short_name(name: str) -> str:
    for word in ("NVIDIA ", "GeForce ", "AMD ", "Instinct ", "Radeon "):
        name = name.replace(word, "")
    return name


def describe_reading(reading: GpuReading | None) -> str:
    """One line about what was read, for dialogs."""
    if reading is None or not reading.gpus:
        return "no GPU here: runs use the CPU"
    return f"{len(reading.gpus)} × {reading.gpus[0].name}" + (
        " (simulated)" if reading.gpus[0].simulated else ""
    )
