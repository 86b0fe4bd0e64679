"""The GPU picker of the launch form: a row per GPU, what is free on it, who holds it, and its
number inside the run.
"""

from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.message import Message

from runners.model.gpus import GpuSnapshot, GpuUse
from runners.model.spec import GpuRequest
from runners.presets.reading.units import parse_gpu_ids
from tui.panel.feed import PanelSnapshot
from tui.panel.hotkeys import hotkey
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.row_list import RowList
from tui.views.format import DASH, indices, memory
from tui.views.gpu_text import gpu_label, instances_of, strangers

_MOST_ROWS = 8


def spell_request(request: GpuRequest) -> str:
    """A wish for GPUs as the form's field spells it: `all`, a count, or which; `7-7` is GPU 7
    alone, `7` a count.
    """
    if request.all:
        return "all"
    return spell_ids(request.ids) if request.ids else str(request.count)


def spell_ids(ids: tuple[str, ...]) -> str:
    """Indices in short and UUIDs as they are; none is `0`, the CPU."""
    if not ids:
        return "0"
    if not all(one.isdigit() for one in ids):
        return ",".join(ids)
    numbers = [int(one) for one in ids]
    short = indices(numbers) if numbers == sorted(numbers) else ",".join(ids)
    return f"{short}-{short}" if short.isdigit() else short


class GpuPicker(RowList):
    """GPUs to choose from. Space toggles one, digits and ranges name them; the field above
    follows.
    """

    DEFAULT_CSS = """
    GpuPicker .rows--cursor { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("space,enter", "pick", "take the GPU, or leave it", "Take or leave"),
        hotkey("a", "all", "take all GPUs", "All"),
    ]

    class Chosen(Message):
        """The GPUs were chosen anew: the field's new text."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, picture: PanelSnapshot | None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture = picture
        self._taken: Mapping[str, int] = {}
        self._peaks: Mapping[str, tuple[str, GpuUse]] = {}
        self._typed = ""

    @property
    def gpus(self) -> tuple[GpuSnapshot, ...]:
        """The GPUs of the newest reading."""
        return self.picture.reading.gpus if self.picture and self.picture.reading else ()

    def on_mount(self) -> None:
        """Lay the rows out."""
        self.take(self.picture)

    def take(self, picture: PanelSnapshot | None) -> None:
        """Take in a new picture: as many rows as there are GPUs, within reason."""
        self.picture = picture
        self.styles.height = min(_MOST_ROWS, len(self.gpus))
        self.show(self._taken, self._peaks)

    def show(self, taken: Mapping[str, int], peaks: Mapping[str, tuple[str, GpuUse]]) -> None:
        """Mark the GPUs of the plan (`taken`: logical number by UUID), and what was peaked at
        against what is free.
        """
        self._taken, self._peaks = taken, peaks
        self.set_rows([gpu.uuid for gpu in self.gpus], [self._row(gpu) for gpu in self.gpus])

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
        chosen = [gpu for gpu in self.gpus if (gpu.uuid in self._taken) != (gpu.uuid == changed)]
        self.post_message(self.Chosen(spell_ids(tuple(_name(gpu) for gpu in chosen))))

    def action_all(self) -> None:
        """Take all of them."""
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

    def _row(self, gpu: GpuSnapshot) -> Text:
        logical = self._taken.get(gpu.uuid)
        row = Text(
            "[x] " if logical is not None else "[ ] ", style="bold" if logical is not None else ""
        )
        row.append(f"{gpu_label(gpu, self.gpus):<6} ")
        row.append_text(self._free(gpu))
        if logical is not None:
            row.append(f"→ device {logical}  ", style="bold")
        return row.append_text(self._state(gpu))

    def _free(self, gpu: GpuSnapshot) -> Text:
        free = (
            None
            if gpu.memory_total is None or gpu.memory_used is None
            else gpu.memory_total - gpu.memory_used
        )
        text = Text(f"{memory(free):>6} free")
        peak = self._peaks[gpu.uuid][1].peak_memory if gpu.uuid in self._peaks else None
        if peak is None or free is None:
            return text.append("  ")
        sign, style = ("⚠", "yellow") if peak > free else ("·", "dim")
        return text.append(f" {sign} peaked {memory(peak)}  ", style=style)

    def _state(self, gpu: GpuSnapshot) -> Text:
        if gpu.error:
            return Text(gpu.error, style="red")
        if instances_of(gpu, self.gpus):
            return Text("cut into MIG instances", style="dim")
        leases = self.picture.leases.get(gpu.uuid, []) if self.picture else []
        names = {view.run.id: view.run.name for view in self.picture.runs} if self.picture else {}
        text = Text("held by " if leases else "")
        for lease in leases:
            letter = self.picture.letters.get(lease.run, "") if self.picture else ""
            text.append(
                f"{letter} {names.get(lease.run) or lease.preset} ",
                style=f"{run_colour(letter, self.app.current_theme)} bold",
            )
        others = strangers(gpu, bool(leases))
        if others:
            text.append(f"⚠ {others[0].user or 'outside'} pid {others[0].pid}", style="yellow")
        elif not leases:
            text.append("free" if gpu.memory_total is not None else DASH, style="green")
        return text


def _name(gpu: GpuSnapshot) -> str:
    return str(gpu.index) if gpu.mig_parent is None else gpu.uuid
