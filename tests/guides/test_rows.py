"""Every row of the table has tests that are there, and a state that the guides ask for."""

import pytest

from tests.guides.rows import Row, is_there, read_rows

ROWS = {"0": 51 + 3, "1": 22 + 1, "2": 31 + 2, "3": 25 + 2, "4": 44 + 3}
"""By guide: the rows it had, and those that were found later."""


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row.number)
def test_a_row_is_held_by_tests_that_exist(row: Row) -> None:
    assert row.state in ("W", "W*") and bool(row.needs) == (row.state == "W*")
    assert [test for test in row.tests if not is_there(test)] == []


def test_every_row_of_every_guide_is_there_once() -> None:
    numbers = [row.number for row in read_rows()]
    assert len(numbers) == len(set(numbers))
    counts = {guide: sum(n.startswith(f"{guide}-") for n in numbers) for guide in ROWS}
    assert counts == ROWS
