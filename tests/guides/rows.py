"""The table of the guides' rows: `python -m tests.guides` runs their tests and prints it."""

import ast
from pathlib import Path
from typing import NamedTuple

from tests.support import REPOSITORY

FILE = Path(__file__).with_name("rows.md")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
WALKS = "tests/guides/walks/"


class Row(NamedTuple):
    """One row of a guide: its number, heading, state, what it needs to be proven, its tests."""

    number: str
    heading: str
    state: str
    needs: str
    tests: tuple[str, ...]


def read_rows() -> list[Row]:
    """Every row of the table, in its order."""
    lines = [line for line in FILE.read_text().splitlines() if line[:3].strip("| ").isdigit()]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(*row[:4], tuple(row[4].split(", "))) for row in cells]


def is_there(test: str) -> bool:
    """Whether a test, or a step of a guide, is a function of the file that it is said to be in."""
    file, _, name = test.partition("::")
    path = REPOSITORY / file
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text())
    return name in {node.name for node in tree.body if isinstance(node, FUNCTION)}


def node_of(test: str) -> str:
    """By what name pytest knows a test, or the step of a guide."""
    if not test.startswith(WALKS):
        return test
    file, _, name = test.partition("::")
    return f"tests/guides/test_walks.py::test_step[{Path(file).stem}-{name}]"
