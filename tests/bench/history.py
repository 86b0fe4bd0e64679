"""What earlier runs of the bench measured: a file with a line per row and run, and its plots.

`python tests/bench/history.py PAGE …` adds what pages of the bench say (those of earlier commits,
say) to the file, and draws the plots anew; a row that stands there is not added twice.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

HISTORY = Path(__file__).with_name("history.jsonl")
PLOTS = Path(__file__).with_name("plots")
BY_HAND = "\n## Durations of the suite"
"""Where the part of the page begins that no program measured."""

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_UNIT = re.compile(r"\s*(?!of\b)(%[^(=,;]*|[A-Za-zµ][\w/]*)")
_DATE = re.compile(r"\* date: (.*?), commit (.*?), took .*load average at its start ([\d.]+)")
_MACHINE = re.compile(r"\* machine: (.*)")
WIDTH, STRIP, LABEL, VALUES = 1000, 26, 470, 190
"""Of a plot: its width, the height of a row, and what its name and its values take of the width."""


class Measured(NamedTuple):
    """One row of one run: what the page says of it, its number and that number's unit."""

    date: str
    commit: str
    machine: str
    load: float
    table: str
    row: str
    text: str
    value: float
    unit: str
    ratio: float | None = None
    """Against what was measured beside it; None where nothing was."""

    @property
    def run(self) -> tuple[str, str, str]:
        """Which run of the bench it is of."""
        return self.date, self.commit, self.machine


def read_page(page: str) -> list[Measured]:
    """All rows of a page that `make bench` wrote."""
    page = page.partition(BY_HAND)[0]
    made, machine = _DATE.search(page), _MACHINE.search(page)
    if made is None or machine is None:
        raise ValueError("no page of the bench: it says neither its date nor its machine")
    date, commit, load = made.groups()
    found = []
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        for row, cells in _rows(text):
            told = number(cells[0])
            if told:
                ratio = number(cells[1]) if "×" in cells[1] else None
                about = (date, commit, machine.group(1), float(load), title, row, cells[0])
                found.append(Measured(*about, *told, ratio and ratio[0]))
    return found


def _rows(text: str) -> Iterable[tuple[str, tuple[str, str]]]:
    """Each row of a section's tables: its name, what was measured, and the ratio if there is one.

    A table without the bench's own columns has a row for each of its numbers; rows of one name are
    taken together, by their median.
    """
    header: list[str] = []
    others: dict[str, list[float]] = defaultdict(list)
    for line in text.splitlines():
        if not line.startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not header:
            header = cells
        elif set(line) <= set("|- :"):
            continue
        elif "here" in header:
            row = dict(zip(header, cells, strict=False))
            yield row["what"], (row["here"], row.get("compared", ""))
        else:
            for column, cell in zip(header[1:], cells[1:], strict=False):
                if _NUMBER.fullmatch(cell):
                    name = ", ".join(word for word in (header[0], cells[0], column) if word)
                    others[name].append(float(cell.replace(",", "")))
    for name, values in others.items():
        yield name, (f"{statistics.median(values):g}", "")


def number(text: str) -> tuple[float, str] | None:
    """The first number of a cell and its unit; None where it says none."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    unit = _UNIT.match(text, found.end())
    return float(found.group().replace(",", "")), unit.group(1).strip() if unit else ""


def read(file: Path = HISTORY) -> list[Measured]:
    """All that was written down, the oldest first."""
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Measured(**json.loads(line)) for line in lines]


def add(measured: Iterable[Measured], file: Path = HISTORY) -> None:
    """Append what does not stand in the file yet."""
    known = {(*row.run, row.table, row.row) for row in read(file)}
    with file.open("a", encoding="utf-8") as out:
        for row in measured:
            if (*row.run, row.table, row.row) not in known:
                out.write(json.dumps(row._asdict(), ensure_ascii=False) + "\n")


def last_said(history: Sequence[Measured], table: str) -> dict[str, str]:
    """What the newest run that has it says of each row of a table, and of which commit that is."""
    return {
        row.row: f"{row.text} at {row.commit.partition(',')[0]}"
        for row in history
        if row.table == table
    }


def draw(history: Sequence[Measured], folder: Path = PLOTS) -> None:
    """A picture per table: a line of values for every row, over the runs of the bench."""
    folder.mkdir(exist_ok=True)
    tables: dict[str, list[Measured]] = defaultdict(list)
    for row in history:
        tables[row.table].append(row)
    for table, rows in tables.items():
        file_of(table, folder).write_text(plot(table, rows), encoding="utf-8")


def file_of(table: str, folder: Path = PLOTS) -> Path:
    """Where a table's picture lies."""
    return folder / (re.sub(r"\W+", "-", table.lower()) + ".svg")


def plot(table: str, measured: Sequence[Measured]) -> str:
    """An SVG with one strip per row of a table; runs on another machine than the last are hollow."""
    runs = list(dict.fromkeys(row.run for row in measured))
    strips: dict[str, dict[tuple[str, str, str], Measured]] = defaultdict(dict)
    for row in measured:
        strips[row.row][row.run] = row
    height = STRIP * (len(strips) + 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="17" font-weight="bold">{escape(table)}: {len(runs)} runs of the bench, '
        f"{escape(runs[0][0])} to {escape(runs[-1][0])}; hollow: on another machine</text>",
    ]
    for at, (name, of_runs) in enumerate(strips.items(), 1):
        lines += _strip(name, [of_runs.get(run) for run in runs], STRIP * at, runs[-1][2])
    return "\n".join([*lines, "</svg>", ""])


def _strip(name: str, values: Sequence[Measured | None], top: int, machine: str) -> list[str]:
    """A row's name, its points joined by a line, its first and last value."""
    known = [(at, row) for at, row in enumerate(values) if row is not None]
    low, high = (end(row.value for _, row in known) for end in (min, max))
    shown = name if len(name) <= 78 else f"{name[:77]}…"
    width = WIDTH - LABEL - VALUES

    def place(at: int, value: float) -> tuple[float, float]:
        across = at / (len(values) - 1) if len(values) > 1 else 0.5
        up = (value - low) / (high - low) if high > low else 0.5
        return LABEL + across * width, top + STRIP - 5 - up * (STRIP - 10)

    points = [place(at, row.value) for at, row in known]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    first, last = known[0][1], known[-1][1]
    unit = f" {last.unit}" if last.unit else ""
    lines = [
        f'<text x="8" y="{top + 17}">{escape(shown)}</text>',
        f'<polyline points="{path}" fill="none" stroke="#4878a8"/>',
        f'<text x="{LABEL + width + 14}" y="{top + 17}">{first.value:g} → {last.value:g}'
        f"{escape(unit)}</text>",
    ]
    for (x, y), (_, row) in zip(points, known, strict=True):
        fill = "#4878a8" if row.machine == machine else "white"
        told = escape(f"{row.date}, {row.commit}, load {row.load}: {row.text}")
        lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{fill}" stroke="#4878a8">'
            f"<title>{told}</title></circle>"
        )
    return lines


def main(pages: Sequence[str]) -> None:
    """Add pages that were kept elsewhere, the oldest first."""
    for page in pages:
        add(read_page(Path(page).read_text(encoding="utf-8")))
    draw(read())


if __name__ == "__main__":
    main(sys.argv[1:])
