"""Every row of the table has tests that are there, and a state that the guides ask for."""

import ast

import pytest

from tests.guides.rows import Row, read_rows
from tests.support import REPOSITORY


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row.number)
def test_a_row_is_held_by_tests_that_exist(row: Row) -> None:
    assert row.state in ("W", "W*") and bool(row.needs) == (row.state == "W*")
    for test in row.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((REPOSITORY / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_rows_are_those_that_were_open() -> None:
    numbers = [row.number for row in read_rows()]
    assert len(numbers) == len(set(numbers)) == 35
