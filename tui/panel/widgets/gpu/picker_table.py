"""How the GPU picker draws its GPUs: a mark, memory, who holds them, their number in the run."""

from collections.abc import Sequence

from rich.text import Text
from textual.theme import Theme

from runners.model.gpus import GpuSnapshot
from tui.panel.theme.palette import run_colour
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import DASH, memory
from tui.views.machines.gpu_text import gpu_label, instances_of, strangers
from tui.views.runs.form_plan import Peaks


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
        elif not leases and gpu.unread:
            text.append(f"⚠ {gpu.unread}", style="yellow")
        elif not leases:
            text.append("free" if gpu.memory_total is not None else DASH, style="green")
        text.rstrip()
        return text
