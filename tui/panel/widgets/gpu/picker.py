"""The GPU picker of the launch form: a row per GPU.
What is free on it, who holds it, and its number inside the run.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.theme import Theme

from runners.model.gpus import GpuSnapshot
from runners.model.spec import GpuRequest
from runners.model.units import indices, parse_gpu_ids
from tui.panel.hotkeys import hotkey
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.row_list import RowList
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import DASH, memory
from tui.views.machines.gpu_text import gpu_label, instances_of, strangers
from tui.views.runs.form_plan import Peaks

_MOST_ROWS = 8


def spell_request(request: GpuRequest) -> str:
    """A request for GPUs as the form's field spells it: `all`, a count, or which.
    `7-7` is GPU 7 alone, `7` a count.
    """
    if request.all:
        return "all"
    return spell_ids(request.ids) if request.ids else str(request.count)


def spell_ids(ids: tuple[str, ...]) -> str:
    """Indices in short and UUIDs as they are; none is `0`, the CPU."""
    if not ids:
        return "0"
    if not all(name.isdecimal() for name in ids):
        return ",".join(ids)
    numbers = [int(name) for name in ids]
    short = indices(numbers) if numbers == sorted(numbers) else ",".join(ids)
    return f"{short}-{short}" if short.isdecimal() else short


class PickerTable:
    """The rows for the GPUs of one snapshot; `peaks` add a column."""

    def __init__(
        self, snapshot: PanelSnapshot, gpus: Sequence[GpuSnapshot], peaks: Peaks, theme: Theme
    ) -> None:
        self._snapshot = snapshot
        self._gpus = gpus
        self._peaks = peaks
        self._theme = theme
        self._label_width = max(len(gpu_label(gpu, gpus)) for gpu in gpus)

    @property
    def header(self) -> Text:
        """The headings."""
        peak = f"  {'peak':>7}" if self._peaks else ""
        heading = f"    {'':<{self._label_width}} {'free':>6}  {'of':>6}{peak}  held by"
        return Text(heading, style="dim")

    def row(self, gpu: GpuSnapshot, ticked: bool, logical: int | None) -> Text:
        """One GPU; `logical` is its number in the run, when the plan was given it."""
        row = Text("[x] " if ticked else "[ ] ", style="bold" if ticked else "")
        row.append(f"{gpu_label(gpu, self._gpus):<{self._label_width}} ")
        row.append_text(self._memory(gpu)).append("  ").append_text(self._holder(gpu))
        if logical is not None:
            row.append(f"  → device {logical}", style="bold")
        elif ticked:
            row.append("  waits for it", style="yellow")
        return row

    def _memory(self, gpu: GpuSnapshot) -> Text:
        """Free memory, all of it, and what the last run like this one peaked at."""
        known = gpu.memory_total is not None and gpu.memory_used is not None
        free = gpu.memory_total - gpu.memory_used if known else None  # type: ignore[operator]
        text = Text(f"{memory(free):>6}  {memory(gpu.memory_total):>6}")
        if not self._peaks:
            return text
        peak = self._peaks[gpu.uuid][1].peak_memory if gpu.uuid in self._peaks else None
        short = peak is not None and free is not None and peak > free
        sign, style = ("⚠ ", "yellow") if short else ("", "dim")
        return text.append(f"  {sign + memory(peak):>7}", style=style)

    def _holder(self, gpu: GpuSnapshot) -> Text:
        if gpu.error:
            return Text(gpu.error, style="red")
        if instances_of(gpu, self._gpus):
            return Text("cut into MIG instances", style="dim")
        text = Text()
        leases = self._snapshot.leases.get(gpu.uuid, [])
        for lease in leases:
            letter = self._snapshot.letters.get(lease.run, "")
            name = self._snapshot.name_of(lease.run) or lease.preset
            text.append(f"{letter} {name} ", style=f"{run_colour(letter, self._theme)} bold")
        others = strangers(gpu, bool(leases))
        if others:
            text.append(f"⚠ {others[0].user or 'outside'} pid {others[0].pid}", style="yellow")
        elif not leases and (gpu.unread or gpu.claimed):
            text.append(f"⚠ {gpu.unread or f'run of {gpu.claimed}'}", style="yellow")
        elif not leases:
            text.append("free" if gpu.memory_total is not None else DASH, style="green")
        text.rstrip()
        return text


class GpuPicker(RowList):
    """GPUs to choose from. Space toggles one, digits and ranges name them; the field above
    follows.
    """

    DEFAULT_CSS = """
    GpuPicker .rows--cursor { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("space,enter", "pick", "choose the GPU, or not", "Take or leave"),
        hotkey("a", "all", "take all GPUs", "All"),
    ]

    class Chosen(Message):
        """The GPUs were chosen anew: the field's new text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, snapshot: PanelSnapshot | None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot = snapshot
        self._taken: Mapping[str, int] = {}
        self._peaks: Peaks = {}
        self._named: frozenset[str] | None = None
        self._typed = ""

    @property
    def gpus(self) -> tuple[GpuSnapshot, ...]:
        """The GPUs of the newest reading."""
        return self.snapshot.gpus if self.snapshot else ()

    def on_mount(self) -> None:
        self.take(self.snapshot)

    def take(self, snapshot: PanelSnapshot | None) -> None:
        """Take in a new snapshot: as many rows as there are GPUs, within reason."""
        self.snapshot = snapshot
        self.styles.height = min(_MOST_ROWS, len(self.gpus)) + 1
        self._lay_out()

    def show(
        self,
        taken: Mapping[str, int],
        peaks: Peaks,
        request: GpuRequest | None = None,
    ) -> None:
        """Mark the GPUs of the plan and those that the `request` names, got or not.
        `taken` has the logical numbers by UUID. What was peaked at is set against what is free.
        """
        self._taken, self._peaks = taken, peaks
        ids = request.ids if request is not None else ()
        named = (gpu.uuid for gpu in self.gpus if gpu.uuid in ids or str(gpu.index) in ids)
        self._named = frozenset(named) if ids else None
        self._lay_out()

    def _lay_out(self) -> None:
        if self.snapshot is None or not self.gpus:
            self.set_rows((), ())
            return
        table = PickerTable(self.snapshot, self.gpus, self._peaks, self.app.current_theme)
        ticked = self.ticked
        rows = [table.row(gpu, gpu.uuid in ticked, self._taken.get(gpu.uuid)) for gpu in self.gpus]
        self.set_rows([gpu.uuid for gpu in self.gpus], rows, [table.header])

    @property
    def ticked(self) -> frozenset[str]:
        """UUIDs of the GPUs that are chosen: those named, else those the plan was given."""
        return frozenset(self._taken) if self._named is None else self._named

    def action_move(self, by: int) -> None:
        """Move the cursor; past either end, go to the next field."""
        self._typed = ""
        if 0 <= self.cursor + by < len(self.gpus):
            super().action_move(by)
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def clicked(self) -> None:
        """Take the GPU, or leave it."""
        self.action_pick()

    def action_pick(self) -> None:
        """Take the GPU under the cursor, or leave it."""
        self._typed = ""
        if not self.gpus:
            return
        changed = self.gpus[self.cursor].uuid
        ticked = self.ticked
        chosen = [gpu for gpu in self.gpus if (gpu.uuid in ticked) != (gpu.uuid == changed)]
        self._named = frozenset(gpu.uuid for gpu in chosen)  # the plan follows in a moment
        self._lay_out()
        self.post_message(self.Chosen(spell_ids(tuple(_name(gpu) for gpu in chosen))))

    def action_all(self) -> None:
        self.post_message(self.Chosen("all"))

    def on_key(self, event: events.Key) -> None:
        """Digits, dashes and commas name GPUs: `3`, `0-6`, `0-3,7`."""
        if event.key == "backspace":
            self._typed = self._typed[:-1]
        elif event.character and event.character in "0123456789,-":
            self._typed += event.character
        else:
            return
        event.stop()
        try:
            self.post_message(self.Chosen(spell_ids(parse_gpu_ids(self._typed))))
        except ValueError:
            pass  # not all of it is typed yet

    def on_blur(self) -> None:
        """What was typed here is not gone on with."""
        self._typed = ""


def _name(gpu: GpuSnapshot) -> str:
    return str(gpu.index) if gpu.mig_parent is None else gpu.uuid
