"""Several machines at a glance: a line each, and what all of them come to."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from runners.model.units import counted
from tui.views.format import cells_of, cut, dollars, fitted

_NAME = 12
_NAMED = 3
"""So many machines are named where there is one line for all."""


class FleetLine(NamedTuple):
    """One machine: its name (empty: this one), GPUs that are free and that there are, live runs.

    `rate` in US dollars per hour, None where not known. `problem` is why it is not reached; what
    is said of its GPUs is then as old as that.
    """

    name: str
    free: int
    total: int
    runs: int
    rate: Decimal | None = None
    problem: str = ""

    @property
    def used(self) -> float | None:
        """The part of its GPUs that is not free; None where it has none."""
        return (self.total - self.free) / self.total if self.total else None

    @property
    def about(self) -> str:
        """`6 of 8 GPUs free · 2 runs · $15.92/h`, or why it is not reached."""
        if self.problem:
            return self.problem
        gpus = f"{self.free} of {self.total} GPUs free" if self.total else "no GPU"
        runs = counted(self.runs, "run")
        rate = "" if self.rate is None else f"{dollars(self.rate)}/h"
        return " · ".join(part for part in (gpus, runs, rate) if part)

    @property
    def shown(self) -> str:
        """What people know it by."""
        return self.name or "here"


def by_free(lines: Sequence[FleetLine]) -> list[FleetLine]:
    """The machines with the most free GPUs first, those that are not reached last."""
    return sorted(lines, key=lambda line: (bool(line.problem), -line.free, line.shown))


def fleet_row(line: FleetLine, bar: str, width: int, name_width: int) -> str:
    """`amd       6/8 free ██▌     3 runs $15.92/h`, in as much of it as fits."""
    name = fitted(line.shown, name_width)
    rate = "" if line.rate is None else f"{dollars(line.rate)}/h"
    if line.problem:
        text = f"{name} ⚠ {line.problem}"
        return (
            f"{text} {rate}" if rate and cells_of(f"{text} {rate}") <= width else cut(text, width)
        )
    free = f"{line.free:>2}/{line.total} free" if line.total else "   no GPU"
    runs = f"{line.runs:>2} run{' ' if line.runs == 1 else 's'}"
    for parts in ((name, f"{free:<10}", bar, runs, rate), (name, f"{free:<10}", runs, rate)):
        text = " ".join(part for part in parts if part)
        if len(text) <= width:
            return text
    return f"{name} {free:<10} {runs}"[:width]


def name_width(lines: Sequence[FleetLine], width: int) -> int:
    """Cells for the machines' names, so that the rest has room."""
    longest = max((len(line.shown) for line in lines), default=0)
    return min(longest, max(_NAME, width - 40))


def fleet_title(lines: Sequence[FleetLine]) -> str:
    """`Machines · 57 of 160 GPUs free · 6 not reached`."""
    reached = [line for line in lines if not line.problem]
    free, total = sum(line.free for line in reached), sum(line.total for line in reached)
    down = len(lines) - len(reached)
    title = f"Machines · {free} of {total} GPUs free"
    return f"{title} · {down} not reached" if down else title


def named_briefly(names: Sequence[str]) -> str:
    """The names, or the first of them and how many more there are."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
