"""All machines in the GPU pane: a line for each, with its GPUs below it where it is unfolded."""

from collections.abc import Callable, Mapping, Sequence

from rich.text import Text

from runners.model.gpus import GpuSnapshot
from tui.panel.theme.palette import bar
from tui.views.machines.fleet_text import FleetLine, fleet_row, name_width

_BAR, _SIGN = 8, 2


def fleet_rows(
    fleet: Sequence[FleetLine],
    gpus: Sequence[GpuSnapshot],
    machines: Mapping[str, str],
    is_folded: Callable[[str], bool],
    row: Callable[[GpuSnapshot], Text],
    width: int,
) -> list[tuple[FleetLine | GpuSnapshot, Text]]:
    """What stands in each line; `machines` has that of each GPU, `row` makes a GPU's line."""
    found: dict[str, list[GpuSnapshot]] = {}
    for gpu in gpus:
        found.setdefault(machines.get(gpu.uuid, ""), []).append(gpu)
    rows: list[tuple[FleetLine | GpuSnapshot, Text]] = []
    names = name_width(fleet, width)
    for line in fleet:
        folded = is_folded(line.name)
        text = fleet_row(line, bar(line.used, _BAR), width - _SIGN, names)
        style = "bold" if line.free else ""
        style = "yellow" if line.problem else style
        sign = "▸" if folded else "▾"
        rows.append((line, Text(f"{sign} {text}", style=style, no_wrap=True)))
        rows += [(gpu, row(gpu)) for gpu in (() if folded else found.get(line.name, ()))]
    return rows
