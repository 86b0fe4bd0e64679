"""Tables of commands on a terminal that is narrower than they are: aligned, nothing cut off."""

from decimal import Decimal
from pathlib import Path

import pytest
from rich.cells import cell_len

from runners.model.states import State
from tui.cli import output
from tui.views.format import _PLAIN, cells_of
from tui.views.machines.fleet_text import FleetLine, fleet_row
from tui.views.machines.gpu_detail_text import _row, process_heading
from tui.views.metrics.chart_files import write_chart

HEADINGS = ("run", "state", "eta", "reason")
STATES = ("state", "failed", "done")
LONG = "out of GPU memory after step 812 of its third attempt"
ROWS = [
    ("20261126-162650-trian-18f3", "failed", "—", LONG),
    ("20261126-162647-first-1771", "done", "—", ""),
]


def lines(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setattr(output, "terminal_width", lambda: width)
    output.print_table(HEADINGS, ROWS)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [60, 48, 40])
def test_the_widest_columns_are_folded_each_within_itself(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = lines(width, monkeypatch, capsys)
    assert max(map(len, shown)) <= width
    assert "eta" not in shown[0].split(), "a column that says nothing gives way"
    at = shown[0].index("reason")
    assert " ".join(line[at:].strip() for line in shown[1:]).split() == LONG.split()
    state = shown[0].index("state")
    assert "".join(line[:state].strip() for line in shown[1:]) == "".join(row[0] for row in ROWS)


@pytest.mark.parametrize("width", [0, 200, 10])
def test_elsewhere_a_row_is_a_line(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe, where there is room, and where folding would be of no use."""
    shown = lines(width, monkeypatch, capsys)
    assert len(shown) == 3 and shown[1].endswith(LONG) and shown[1].startswith(ROWS[0][0])


def test_a_heading_is_made_safe_as_its_cells_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs' names are the headings of a comparison."""
    output.print_table(("a\nb\x1b[31m", "c"), [("1", "2")])
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 2 and "\x1b" not in shown


@pytest.mark.parametrize("width", [30, 44, 60, 0])
def test_letters_of_two_cells_are_counted_as_such(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names in scripts that take two cells a letter, and emoji; in pairs, too."""
    rows = [
        ("训练高斯解码器的实验甲", "failed", "🚀🚀 显存不足, third attempt of all"),
        ("plain", "done", "—"),
    ]
    monkeypatch.setattr(output, "terminal_width", lambda: width)
    output.print_table(("run", "state", "reason"), rows)
    shown = capsys.readouterr().out.splitlines()
    if width:
        assert max(map(cell_len, shown)) <= width
    begins = [
        cell_len(line[: line.index(word)]) for line in shown for word in STATES if word in line
    ]
    assert len(begins) == 3 and len(set(begins)) == 1, "states stand below each other"
    together = "".join("".join(line.split()) for line in shown)
    assert sorted(together) == sorted(
        "".join("".join(row).replace(" ", "") for row in (("run", "state", "reason"), *rows))
    )
    output.print_pairs([("名前", "a"), ("name", "b"), ("\u202eloss", "c")])
    shown = capsys.readouterr().out.splitlines()
    assert len(set(map(cell_len, shown))) == 1 and shown[2].startswith("‹U+202E›loss")


def test_signs_that_our_tables_have_take_a_cell() -> None:
    """What is counted without a table of widths is what that table says."""
    for letter in {*"".join(state.sign for state in State), *_PLAIN}:
        assert cells_of(letter) == cell_len(letter) == 1, letter


def test_names_of_two_cells_a_letter_move_no_column_and_leave_no_line() -> None:
    cells = ("名前" * 9, "4711", "利用者" * 5, "4m12s", "62.1G", "98%")
    assert cell_len(_row(cells)) == cell_len(process_heading())
    down = FleetLine("箱", 0, 0, 0, Decimal("3.98"), "接続できません" * 10)
    for width in (30, 60, 200):
        assert cell_len(fleet_row(down, "", width, 12)) <= width


def test_a_chart_of_a_metric_with_a_long_name_is_written(tmp_path: Path) -> None:
    """A letter may be four of the 255 bytes that the name of a file has."""
    for path in write_chart(tmp_path, "𠮷" * 300, "損失", [], [], "step", False):
        assert path.exists()
