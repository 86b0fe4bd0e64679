"""The table of the guides' rows: `python -m tests.guides` runs their tests and prints it."""

from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("rows.md")


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
