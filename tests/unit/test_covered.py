"""The table of what the tests run: rooms summed, lines that nothing has run as spans."""

import re
from pathlib import Path

from tests.covered import ROOT, Room, lay_out, rooms_of, spans, table


def _file(statements: int, covered: int, missing: list[int]) -> dict[str, object]:
    summary = {"num_statements": statements, "covered_lines": covered}
    return {"summary": summary, "missing_lines": missing}


FILES = {
    "runners/host/clock.py": _file(10, 7, [3, 7, 8]),
    "runners/host/tail.py": _file(10, 10, []),
    "runners/probe/memory.py": _file(4, 1, [1, 2, 4]),
    "tui/__init__.py": _file(0, 0, []),
}


def test_rooms_are_summed_and_the_least_covered_stands_first() -> None:
    assert rooms_of(FILES) == [
        Room("runners/probe", 4, 1),
        Room("runners/host", 20, 17),
        Room("tui", 0, 0),
    ]


def test_the_table_says_all_of_a_package_then_rooms_then_lines() -> None:
    lines = list(table(FILES))
    assert "| **runners** | 24 | 18 | **75.0%** |" in lines
    assert lines.index("| `runners/probe` | 4 | 1 | 25.0% |") < lines.index(
        "| `runners/host` | 20 | 17 | 85.0% |"
    )
    assert lines[-2:] == [
        "* `runners/host/clock.py`: 3, 7–8",
        "* `runners/probe/memory.py`: 1–2, 4",
    ]


def test_neighbours_are_a_span() -> None:
    assert spans([]) == ""
    assert spans([1, 2, 3, 7, 9, 10]) == "1–3, 7, 9–10"


def test_no_line_of_a_file_lies_where_another_file_s_do() -> None:
    begins, size = lay_out()
    assert {Path(file).relative_to(ROOT).parts[0] for file in begins} == {"tui", "runners"}
    ends = [*list(begins.values())[1:], size]
    for (file, begin), end in zip(begins.items(), ends, strict=True):
        # Lines are counted from 1; what a form feed separates is one line to Python.
        assert begin + len(re.findall(rb"\n", Path(file).read_bytes())) < end
