"""How the lines of the run table are drawn: names of sweeps and their runs in little room."""

import msgspec
import pytest
from rich.cells import cell_len
from textual.theme import BUILTIN_THEMES

from runners.cost.meter import Meter
from runners.model.states import State
from runners.places.run_row import RunRow
from tests.unit.test_run_query import row
from tui.panel.widgets.run_lines import RunLines
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.ended_index import EndedRows
from tui.views.runs.run_sort import parse_sort
from tui.views.runs.run_table import Arranger, TableChoice

SWEEPS = ("vit-small-a12f", "resnet-19bc")


def sweep(group: str, size: int = 4) -> list[RunRow]:
    stem = group.rpartition("-")[0]
    return [
        row(
            f"{stem}-lr{lr}-wd0.01-seed{seed}",
            group=group,
            last=0.3 + seed,
            best=0.2 + seed,
            created=float(seed),
        )
        for lr in ("1e-3", "3e-3")
        for seed in range(size // 2)
    ]


def drawn(rows: list[RunRow], choice: TableChoice, width: int = 46) -> list[str]:
    lines = RunLines()
    lines.choose(choice, None)
    lines.arrange(Arranger().arrange([], tuple(rows), 1, choice))
    lines.lay_out(width, BUILTIN_THEMES["textual-dark"])
    return [line.plain for line in lines]


def test_a_folded_sweep_has_its_name_its_number_and_the_best_of_its_runs() -> None:
    folded = TableChoice(folded=frozenset(SWEEPS))
    shown = drawn([*sweep(SWEEPS[0], 40), *sweep(SWEEPS[1])], folded)
    assert "▸ vit-s… (40)" in shown[0] and "▸ resnet (4)" in shown[1]
    assert all("0.3 " in line for line in shown)
    # Of two sweeps of one name the tail tells which is which.
    twice = ("resnet-19bc", "resnet-ffff")
    shown = drawn(
        [*sweep(twice[0], 10), *sweep(twice[1], 10)], TableChoice(folded=frozenset(twice))
    )
    assert len({line[:30] for line in shown}) == 2


@pytest.mark.parametrize("width", [46, 74, 160])
def test_names_of_wide_letters_and_emoji_leave_the_columns_below_each_other(width: int) -> None:
    names = (
        "plain",
        "日本語の実験-1",
        "🚀🚀-launch",
        "한국어 이름이 아주 긴 실행 하나",
        "e\u0301te\u0301",
    )
    shown = drawn([row(name, last=0.5) for name in names], TableChoice(), width)
    ends = {cell_len(line[: line.index("0.5")]) for line in shown}
    assert len(ends) == 1 and len({cell_len(line) for line in shown}) == 1, shown


def test_runs_of_a_sweep_are_called_by_their_values_alone_among_themselves_only() -> None:
    ordered = TableChoice(sort=parse_sort("loss"))
    assert [line.split()[2:4] for line in drawn(sweep(SWEEPS[0]), ordered)] == [
        ["1e-3", "0"],
        ["3e-3", "0"],
        ["1e-3", "1"],
        ["3e-3", "1"],
    ]
    mixed = drawn([*sweep(SWEEPS[0]), *sweep(SWEEPS[1])], ordered)
    assert any("vit-s… 1e-3 0" in line for line in mixed)
    assert any("resnet 1e-3 0" in line for line in mixed)
    # Where the sweep's name has no room either, at least its runs are not called alike.
    narrow = drawn([*sweep(SWEEPS[0]), *sweep(SWEEPS[1])], ordered, 34)
    assert all("…1e-3 " in line or "…3e-3 " in line for line in narrow), narrow


def test_a_marked_run_is_as_it_is_now_not_as_it_was_when_it_was_marked() -> None:
    """Marked while it lived, it could not be deleted once it had ended."""
    lines, ended = RunLines(), row("a")
    living = msgspec.structs.replace(ended, state=State.RUNNING, is_live=True)
    lines.live = {living.id: living}
    lines.arrange(Arranger().arrange([living], (), 1, TableChoice()))
    assert lines.mark(living.id)
    lines.live = {}
    lines.snapshot = PanelSnapshot(
        1.0, "box", (), {}, None, {}, None, Meter(None, None, None, None, ""), 0,
        ended=EndedRows((ended,), 1, frozenset([ended.id])),
    )  # fmt: skip
    assert [marked.is_live for marked in lines.marked_rows] == [False]
