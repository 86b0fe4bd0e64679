"""The GPU pane: a line per GPU with its use, its memory and the run that holds it.
Without GPUs it shows the host.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.message import Message
from textual.theme import Theme

from runners.gpus.client import is_stale
from runners.host.clock import local_time
from runners.model.gpus import UNREAD, GpuProcess, GpuReading, GpuSnapshot, HostSnapshot
from runners.scheduling.allocation import obstacle
from runners.state.leases import Lease
from tui.panel.hotkeys import hotkey
from tui.panel.theme.palette import bar, run_colour
from tui.panel.widgets.row_list import RowList
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import DASH, fitted, memory, percent, size
from tui.views.machines.gpu_text import host_text, instance_number, instances_of, strangers, trouble

if TYPE_CHECKING:
    from tui.views.machines.fleet_text import FleetLine

_CORNERS = 4
_LINE = "machine:"
"""What the keys of machines' own lines begin with."""
_UNFOLDED = 3
"""So many machines are shown with their GPUs from the beginning."""
_NO_FLEET = "this is one machine: h shows the others, and all of them, a line each"
_A_MACHINE = "this is a machine: Enter shows its GPUs, s on one of those stops its runs"
_LEAST_NAME = 6
"""Cells in which a run's name still says something."""
_WITH_MEMORY, _MEDIUM, _WIDE, _NAMED = 26, 40, 54, 64
"""Content widths from which a row shows temperature and power, the memory bar, and the GPU's
name.
"""


class GpuPane(RowList):
    """GPUs and who holds them; logical device numbers stand behind the run's letter. Enter shows
    one in full.
    """

    DEFAULT_CSS = """
    GpuPane .rows--cursor { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("enter", "open", "everything about the GPU; ← → the next one", "Details", "Enter"),
        hotkey("s", "stop_holders", "stop the runs that hold the GPU; asks", "Stop"),
        hotkey("right,plus", "fold(False)", "of all machines: show the machine's GPUs"),
        hotkey("left,minus", "fold(True)", "of all machines: a line for the machine"),
        hotkey("K", "end_strangers", "end your own processes of no run; asks twice"),
    ]

    class DetailsWanted(Message):
        """Enter was pressed on a GPU; its UUID, "" where there is none."""

        def __init__(self, uuid: str) -> None:
            super().__init__()
            self.uuid = uuid

    class StopWanted(Message):
        """The runs that hold a GPU shall stop: their ids as its machine knows them."""

        def __init__(self, runs: Sequence[str], machine: str) -> None:
            super().__init__()
            self.runs, self.machine = runs, machine

    class EndWanted(Message):
        """These processes of no run shall end; `machine` is where, empty for this one."""

        def __init__(self, processes: Sequence[GpuProcess], machine: str) -> None:
            super().__init__()
            self.processes, self.machine = processes, machine

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot: PanelSnapshot | None = None
        self.where = ""
        """Whose GPUs these are; empty for those of this machine."""
        self.machines: Mapping[str, str] = {}
        """The other machine that a GPU is in, by its UUID."""
        self.fleet: Sequence[FleetLine] = ()
        """All machines, where those are shown: a line each, with its GPUs where it is unfolded."""
        self._folds: dict[str, bool] = {}
        """Machines that a person has folded, or unfolded."""

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; only rows that changed are painted."""
        self.snapshot = snapshot
        reading = snapshot.reading
        if self.fleet:
            from tui.views.machines.fleet_text import fleet_title  # few have several machines

            self.retitle(fleet_title(self.fleet), "")
        else:
            self.retitle(*_titles(reading, self.size.width, self.where))
        self._lay_out()

    def on_resize(self) -> None:
        """Lay columns and titles out anew."""
        if self.snapshot is None:
            self._lay_out()
        else:
            self.show(self.snapshot)

    @property
    def _gpus(self) -> tuple[GpuSnapshot, ...]:
        return self.snapshot.gpus if self.snapshot else ()

    @property
    def _here(self) -> str:
        """The GPU under the cursor, which nobody may have moved yet; empty without any."""
        return self.keys[self.cursor] if self.keys else ""

    def action_open(self) -> None:
        """Have everything about the GPU under the cursor shown."""
        if self._machine_here is not None:
            self._set_fold(self._machine_here, not self._is_folded(self._machine_here))
            return
        reading = self.snapshot.reading if self.snapshot else None
        if reading is not None and (reading.gpus or reading.problem):
            self.post_message(self.DetailsWanted(self._here))
        else:
            self.notify(describe_reading(reading), timeout=4, markup=False)

    @property
    def _machine_here(self) -> str | None:
        """The machine whose own line the cursor is on; None on a GPU."""
        return self._here[len(_LINE) :] if self._here.startswith(_LINE) else None

    def _is_folded(self, machine: str) -> bool:
        return self._folds.get(machine, len(self.fleet) > _UNFOLDED)

    def _set_fold(self, machine: str, folded: bool) -> None:
        self._folds[machine] = folded
        if folded:
            self.put_cursor(_LINE + machine)
        self._lay_out()

    def action_fold(self, folded: bool) -> None:
        """Fold the machine that the cursor is on, or show its GPUs."""
        if not self.fleet:
            self.notify(_NO_FLEET, timeout=4, markup=False)
            return
        machine = self._machine_here
        self._set_fold(self.machines.get(self._here, "") if machine is None else machine, folded)

    def action_stop_holders(self) -> None:
        """Have the runs stopped that hold the GPU under the cursor."""
        if self._machine_here is not None:
            self.notify(_A_MACHINE, timeout=4, markup=False)
            return
        if self.snapshot is None or not self._here:
            raise SkipAction  # without a GPU it is about the selected run, as everywhere
        leases = self.snapshot.leases.get(self._here, [])
        # A run of another machine stands here under `machine/id`.
        runs = [lease.run.rpartition("/")[2] for lease in leases]
        self.post_message(self.StopWanted(runs, self.machines.get(self._here, "")))

    def action_end_strangers(self) -> None:
        """Have the processes ended that are on the GPU under the cursor and of no run."""
        gpu = next((gpu for gpu in self._gpus if gpu.uuid == self._here), None)
        if self.snapshot is None or gpu is None:
            reading = self.snapshot.reading if self.snapshot else None
            self.notify(describe_reading(reading), timeout=4, markup=False)
            return
        found = strangers(gpu, bool(self.snapshot.leases.get(gpu.uuid)))
        self.post_message(self.EndWanted(found, self.machines.get(gpu.uuid, "")))

    def _lay_out(self) -> None:
        snapshot = self.snapshot
        if snapshot is None or snapshot.reading is None:
            self.set_rows((), (), [Text("reading…", style="dim")])
            return
        reading = snapshot.reading
        # The scroll bar may come with these very rows.
        width = self.scrollable_content_region.width - (not self.show_vertical_scrollbar)
        above = _problem_rows(reading.problem, width)
        if not reading.gpus:
            above += _host_rows(reading.cpu, width)
        width, theme = self.scrollable_content_region.width, self.app.current_theme
        if self.fleet:
            from tui.panel.widgets.gpu.fleet_rows import fleet_rows  # few have several machines

            found = fleet_rows(
                self.fleet,
                reading.gpus,
                self.machines,
                self._is_folded,
                lambda gpu: Text("  ").append_text(gpu_row(snapshot, gpu, width - 2, theme)),
                width,
            )
            keys = [x.uuid if isinstance(x, GpuSnapshot) else _LINE + x.name for x, _ in found]
            self.set_rows(keys, [text for _, text in found])
            return
        rows = [gpu_row(snapshot, gpu, width, theme) for gpu in reading.gpus]
        self.set_rows([gpu.uuid for gpu in reading.gpus], rows, above)


def _titles(reading: GpuReading | None, width: int, where: str) -> tuple[str, str]:
    """What stands in the border: what is simulated or missing, and how old stale readings are.
    Beside GPUs the host.
    """
    if reading is None:
        return "GPUs", ""
    title = f"GPUs · {where}" if where else "GPUs"
    if reading.backend == UNREAD and not reading.time:
        return title, ""  # its problem says what is being waited for
    if any(gpu.simulated for gpu in reading.gpus):
        title += " · simulated"
    elif not reading.gpus:
        title = f"CPU · no GPU on {where}" if where else "CPU · no GPU here"
    if is_stale(reading):
        since = local_time(reading.time, "%H:%M:%S")
        return title, f"stale since {since}"
    return title, (host_text(reading.cpu, width - _CORNERS) or "") if reading.gpus else ""


def _host_rows(host: HostSnapshot, width: int) -> list[Text]:
    """What is shown of a machine that has no GPU."""
    wide = max(5, min(24, width - 25))
    cpu = None if host.cpu_percent is None else host.cpu_percent / 100
    used = host.memory_used / host.memory_total if host.memory_used and host.memory_total else None
    disk = 1 - host.disk_free / host.disk_total if host.disk_free and host.disk_total else None
    digits = 0 if (host.load_1m or 0.0) >= 10 else 2
    load = DASH if host.load_1m is None else f"{host.load_1m:.{digits}f}"
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


def _problem_rows(problem: str | None, width: int) -> list[Text]:
    """What is wrong and what to do about it.
    In as many rows as it takes to be read: at most four.
    """
    if not problem or width < 4:
        return []
    lines = textwrap.wrap(f"⚠ {problem}", width, max_lines=4, placeholder="…")
    return [Text(line, style="yellow") for line in lines]


def describe_reading(reading: GpuReading | None) -> str:
    """One line about what was read, for dialogs."""
    if reading is None:
        return "the GPUs are still read"
    if not reading.gpus:
        return "no GPU here: runs use the CPU"
    return f"{len(reading.gpus)} × {reading.gpus[0].name}" + (
        " (simulated)" if reading.gpus[0].simulated else ""
    )


def gpu_row(snapshot: PanelSnapshot, gpu: GpuSnapshot, width: int, theme: Theme) -> Text:
    """A GPU of the snapshot in so many cells: its use, its memory, and who holds it."""
    number = instance_number(gpu, snapshot.gpus)
    label = f"{gpu.index:>2} " if number is None else f"└{number} "
    if gpu.error:
        return Text(label).append(f"⚠ {gpu.error}", style="red")
    name = f"{_short_name(gpu.name):<9.9} " if width >= _NAMED else ""
    fraction = None if gpu.utilization is None else gpu.utilization / 100
    use = f"{bar(fraction, 8 if width >= _WIDE else 4)}{percent(gpu.utilization):>5} "
    # In one colour up to here: over SSH a change of colour takes more bytes than the numbers
    # that changed.
    row = Text().append(f"{label}{name}{use}", style="green")
    row.append(_memory(gpu, width))
    if width >= _MEDIUM:
        heat = DASH if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}°"
        row.append(f"{heat:>4} ")
    if width >= _MEDIUM:
        power = DASH if gpu.power_w is None else f"{gpu.power_w:.0f}W"
        row.append(f"{power:>5} ")
    instances = instances_of(gpu, snapshot.gpus)
    if instances:
        row.append(f" {instances} MIG", style="dim")
    room = width - row.cell_len
    return row.append_text(_holder(snapshot, gpu, width, room, not instances, theme))


def _memory(gpu: GpuSnapshot, width: int) -> str:
    used, total = gpu.memory_used, gpu.memory_total
    if width >= _WIDE:
        fraction = used / total if used is not None and total else None
        return f"{bar(fraction, 6)} {memory(used):>6}/{memory(total):<5} "
    return f"{memory(used):>6} " if width >= _WITH_MEMORY else ""


def _holder(
    snapshot: PanelSnapshot, gpu: GpuSnapshot, width: int, room: int, free: bool, theme: Theme
) -> Text:
    leases = snapshot.leases.get(gpu.uuid, [])
    text = Text()
    for lease in leases:
        letter = snapshot.letters.get(lease.run, "")
        text.append(f" {letter}:{lease.logical}", style=f"{run_colour(letter, theme)} bold")
    others = strangers(gpu, bool(leases))
    wrong = trouble(gpu, room - text.cell_len - 1)
    left = room - text.cell_len - 1
    if len(leases) == 1 and not (wrong or others) and left >= _LEAST_NAME:
        text.append(f" {fitted(_name_of(snapshot, leases[0]), left).rstrip()}")
    if wrong:
        text.append(f" {wrong}", style="yellow")
    if others:
        text.append(f" ⚠ {_named(others, width)}", style="yellow")
    elif not leases and free:
        against = obstacle(gpu, snapshot.gpus)
        state = f" ⚠ {against}" if against else " free"
        if text.cell_len + len(state) > room:
            state = " ⚠ not free" if against else state  # its details say why
        text.append(state, style="yellow" if against else "dim")
    return text


def _name_of(snapshot: PanelSnapshot, lease: Lease) -> str:
    """What the run that holds a GPU is called."""
    return snapshot.name_of(lease.run) or lease.preset


def _named(others: list[GpuProcess], width: int) -> str:
    """Whose processes these are: who, pid and command of the first, and how many more."""
    first, more = others[0], f" +{len(others) - 1}" if len(others) > 1 else ""
    who = f"{first.user or 'outside'} pid {first.pid}{more}"
    return f"{who} {first.command}" if first.command and width >= _NAMED else who


def _short_name(name: str) -> str:
    for word in ("NVIDIA ", "GeForce ", "AMD ", "Instinct ", "Radeon "):
        name = name.replace(word, "")
    return name
