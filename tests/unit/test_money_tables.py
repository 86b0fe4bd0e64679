"""The tables of the money page: beside each other where there is room."""

from tui.panel.screens.money import _tables_text
from tui.views.money.cost_report import CostPage, CostTable

DAYS = CostTable(("day", "spent"), [("2026-11-26", "$1.00"), ("2026-11-25", "$2.00")])
RUNS = CostTable(("run", "cost"), [("one", "$3.00"), ("two", "$4.00"), ("three", "$5.00")])
PAGE = CostPage([DAYS, RUNS, DAYS], ["a note"])


def test_as_many_stand_beside_each_other_as_have_room() -> None:
    """In columns of their own, the longest of a row deciding where the next row begins."""
    rows = _tables_text(PAGE, 40).plain.splitlines()
    assert [row.split() for row in (rows[0], *rows[2:5])] == [
        ["day", "spent", "run", "cost"],
        ["2026-11-26", "$1.00", "one", "$3.00"],
        ["2026-11-25", "$2.00", "two", "$4.00"],
        ["three", "$5.00"],
    ]
    names = ("run", " ─", "one", "two", "three")
    assert {row.index(name) for row, name in zip(rows, names, strict=False)} == {20, 21}
    assert rows[6].startswith("day") and rows[-1] == "a note"


def test_each_of_those_beside_each_other_has_a_line_of_its_own_below_its_headings() -> None:
    """Without it their columns read as those of one table."""
    rows = _tables_text(PAGE, 40).plain.splitlines()
    assert rows[1].split() == ["─" * len("2026-11-26  $1.00"), "─" * len("three  $5.00")]
    # One that stands alone needs none.
    assert "─" not in "".join(rows[6:])


def test_they_stand_below_each_other_on_a_narrow_terminal() -> None:
    rows = _tables_text(PAGE, 20).plain.splitlines()
    assert [row.split()[0] for row in rows if row.strip()][::3][:2] == ["day", "run"]
    assert max(map(len, rows)) <= 20
