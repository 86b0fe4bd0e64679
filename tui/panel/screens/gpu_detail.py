"""Everything about one GPU: readings, its last ten minutes, its holder, every process on it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.theme import Theme
from textual.widgets import Static

from runners.gpus.usage import RECENT_S, read_recent
from runners.model.gpus import GpuSample, GpuSnapshot
from runners.state.layout import StateDirectory
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import Dialog, dialog_box, is_open
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.named_lines import NamedLines
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import memory, percent
from tui.views.machines.gpu_detail_text import (
    health_facts,
    launch_facts,
    place_facts,
    power_facts,
    process_heading,
    process_rows,
)
from tui.views.machines.gpu_text import gpu_label, strangers, trouble

_NAMES = 12
"""Cells for names, and the space behind them: the longest is `throttling`."""
_INDENT = 4
_COURSE = 36
_WIDE, _WIDE_COURSE = 160, 96
"""Where the page, its courses and commands are wider."""
_SPARKS = "▁▂▃▄▅▆▇█"


class GpuDetailScreen(Dialog[None]):
    """One GPU, kept current while it is open; without GPUs, what the sampler has to say."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,enter", "dismiss", "close"),
        hotkey("left,p", "move(-1)", "the GPU before or after"),
        hotkey("right,n", "move(1)", "the GPU before or after"),
    ]

    def __init__(
        self,
        state: StateDirectory,
        snapshot: PanelSnapshot,
        uuid: str,
        of: Callable[[PanelSnapshot], PanelSnapshot] | None = None,
    ) -> None:
        """`of` puts the GPUs of another machine in place of this one's."""
        super().__init__()
        self._state = state
        self._of = of or (lambda shown: shown)
        self._snapshot = self._of(snapshot)
        self._uuid = uuid
        self._samples: list[tuple[float, dict[str, GpuSample]]] = []

    def compose(self) -> ComposeResult:
        with dialog_box("GPUs", "← → other GPUs · Esc closes", scrolls=True):
            yield Static(id="gpu-detail")

    def on_mount(self) -> None:
        """Show what is known at once, then the last ten minutes, then every new reading."""
        self._describe()
        # Beside it: no key would be taken before a slow disk has answered.
        self.run_worker(self._read_past())

    async def _read_past(self) -> None:
        past = await asyncio.to_thread(read_recent, self._state)
        newer = [sample for sample in self._samples if not past or sample[0] > past[-1].time]
        self._samples = [(line.time, line.gpus) for line in past] + newer
        if is_open(self):
            self._describe()

    def on_resize(self) -> None:
        self.query_one(".dialog").set_class(self.app.size.width >= _WIDE, "roomy")
        self._describe()

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot."""
        self._snapshot = self._of(snapshot)
        self._describe()

    def action_move(self, rows: int) -> None:
        """Go to the previous GPU or after."""
        reading = self._snapshot.reading
        uuids = [gpu.uuid for gpu in reading.gpus] if reading else []
        if self._uuid in uuids:
            self._uuid = uuids[(uuids.index(self._uuid) + rows) % len(uuids)]
            self._describe()

    def _describe(self) -> None:
        snapshot = self._snapshot
        if snapshot.reading is None:
            return
        reading = snapshot.reading
        self._note(reading.time, reading.gpus)
        gpu = next((gpu for gpu in reading.gpus if gpu.uuid == self._uuid), None)
        dialog = self.query_one(".dialog")
        dialog.border_title = Content(
            "GPUs" if gpu is None else f"{gpu_label(gpu, reading.gpus)} · {gpu.name}"
        )
        lines = NamedLines(_NAMES)
        if reading.problem:
            lines.add_text(Text(f"⚠ {reading.problem}", "yellow"))
        shown: list[NamedLines] = [lines]
        if gpu is not None:
            theme = self.app.current_theme
            width = _WIDE_COURSE if self.app.size.width >= _WIDE else _COURSE
            _describe(lines, snapshot, gpu, self._courses(), theme, width)
            shown.append(_processes(snapshot, gpu, theme, reading.time))
        else:
            if not reading.problem:
                lines.add_text(Text("This GPU is no longer there."))
            lines.add_text(Text("\nLaunching on the CPU, stopping and logs go on."))
        self.query_one("#gpu-detail", Static).update(Group(*shown))

    def _note(self, moment: float, gpus: Sequence[GpuSnapshot]) -> None:
        if not self._samples or moment > self._samples[-1][0]:
            rows = {gpu.uuid: GpuSample(gpu.utilization, gpu.memory_used) for gpu in gpus}
            self._samples.append((moment, rows))
            while self._samples[0][0] < moment - RECENT_S:
                self._samples.pop(0)

    def _courses(self) -> "Courses":
        """This GPU's utilisation and memory, by time."""
        mine = [(moment, rows.get(self._uuid, GpuSample())) for moment, rows in self._samples]
        return [(t, use.utilization) for t, use in mine], [(t, use.memory_used) for t, use in mine]


def course(
    samples: Sequence[tuple[float, float | None]],
    until: float,
    most: float | None,
    width: int = _COURSE,
) -> str:
    """Ten minutes up to `until` in `width` cells: each the mean of its time.
    The scale goes from 0 to `most`; unknown is a dot.
    """
    cells: list[list[float]] = [[] for _ in range(width)]
    for moment, value in samples:
        cell = int((moment - until + RECENT_S) / RECENT_S * width)
        if value is not None and 0 <= cell <= width:
            cells[min(cell, width - 1)].append(value)
    if not most:
        return "·" * width
    return "".join(
        _SPARKS[min(7, max(0, round(sum(cell) / len(cell) / most * 7)))] if cell else "·"
        for cell in cells
    )


Courses = tuple[list[tuple[float, float | None]], list[tuple[float, float | None]]]


def _describe(
    lines: NamedLines,
    snapshot: PanelSnapshot,
    gpu: GpuSnapshot,
    courses: Courses,
    theme: Theme,
    width: int,
) -> None:
    """Append everything about `gpu`: warnings, readings, holders."""
    gpus = snapshot.gpus
    now = snapshot.reading.time if snapshot.reading else time.time()
    _warn(lines, gpu)
    holders = snapshot.leases.get(gpu.uuid, [])
    lines.add("held by", _holders(snapshot, gpu, theme))
    use = f"{percent(gpu.utilization):<6}{course(courses[0], now, 100, width)} last 10 min"
    lines.add("use", use)
    vram = f"{memory(gpu.memory_used):<6}{course(courses[1], now, gpu.memory_total, width)}"
    bus = f"of {memory(gpu.memory_total)}; memory bus {percent(gpu.memory_utilization)} busy"
    lines.add("VRAM", f"{vram}\n{bus}")
    facts = [] if holders else launch_facts(gpu, gpus)
    facts += [*power_facts(gpu), *health_facts(gpu), *place_facts(gpu, gpus)]
    for name, value in facts:
        lines.add(name, value, "yellow" if "⚠" in value else "")


def _warn(lines: NamedLines, gpu: GpuSnapshot) -> None:
    if gpu.simulated:
        lines.add_text(Text("simulated: no such GPU exists", "dim"))
    if gpu.error:
        lines.add_text(Text(f"⚠ {gpu.error}", "red"))
    if trouble(gpu):
        lines.add_text(Text(trouble(gpu), "yellow"))


def _processes(snapshot: PanelSnapshot, gpu: GpuSnapshot, theme: Theme, now: float) -> NamedLines:
    """The processes on `gpu`, each above its command."""
    lines = NamedLines(_INDENT)
    held = bool(snapshot.leases.get(gpu.uuid))
    rows = process_rows(gpu, held, lambda run: _called(snapshot, run), now)
    if not rows:
        lines.add_text(Text("no process seen on it", "bold"))
        return lines
    lines.add_text(Text(f"\n{process_heading()}", "bold"))
    unknown = strangers(gpu, held)
    for row, process in rows:
        letter = snapshot.letters.get(process.run or "", "")
        foreign = "yellow" if process in unknown else ""
        style = run_colour(letter, theme) if letter else foreign
        lines.add_text(Text(row, style))
        if process.command:
            lines.add("", process.command, style)
    return lines


def _called(snapshot: PanelSnapshot, run_id: str) -> str:
    """A run as it is called everywhere: its letter and its name."""
    return f"{snapshot.letters.get(run_id, '')} {snapshot.name_of(run_id) or run_id}".strip()


def _holders(snapshot: PanelSnapshot, gpu: GpuSnapshot, theme: Theme) -> Text:
    leases = snapshot.leases.get(gpu.uuid, [])
    text = Text("" if leases else "nobody")
    for i, lease in enumerate(leases):
        letter = snapshot.letters.get(lease.run, "")
        text.append("\n" if i else "")
        text.append(_called(snapshot, lease.run), style=f"{run_colour(letter, theme)} bold")
        text.append(f"  GPU {gpu.index} → device {lease.logical}\n{lease.run}")
    return text
