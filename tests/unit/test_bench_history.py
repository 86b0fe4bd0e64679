"""What the bench keeps of its runs: rows of a page, each once, and a plot of them."""

from pathlib import Path
from xml.etree import ElementTree

from tests.bench import history
from tests.bench.history import Measured

PAGE = """\
# Bench

* machine: A processor, 2 cores
* date: 22 November 2026, commit {commit}, took 20 min, load average at its start 0.93

## Engine

| what | here | beside it | compared | before | goal | reached |
|---|---|---|---|---|---|---|
| output <a line> | {rate} MB/s (76.4–89.6) | a file: 89.8 MB/s | 0.897 × (0.8–1) | 12 MB/s at a1 |  | **no** |
| readings | 1,002.5 | | | | | |
| on a GPU | open: no GPU here |  |  |  |  |  |

Words: | is no row |.

| 1 GB | end read s | jump |
|---|---|---|
| | 0.0012 | 1,000 |
| | 0.0014 | - |

## Durations of the suite

| what | here |
|---|---|
| not the bench's | 1 s |
"""
NAMESPACE = "{http://www.w3.org/2000/svg}"


def test_what_was_written_by_hand_stands_where_no_run_of_the_bench_replaces_it() -> None:
    page = history.HISTORY.with_name("README.md").read_text()
    measured = {row.table for row in history.read()}
    before, _, _ = page.partition(history.BY_HAND)
    headings = [line[3:] for line in before.splitlines() if line.startswith("## ")]
    assert headings and set(headings) <= measured


def _page(commit: str = "1e9b1fb", rate: str = "83.0") -> list[Measured]:
    return history.read_page(PAGE.format(commit=commit, rate=rate))


def test_a_page_is_read_row_by_row_with_numbers_units_and_ratios() -> None:
    rows = {row.row: row for row in _page()}
    assert {name: (row.value, row.unit, row.ratio) for name, row in rows.items()} == {
        "output <a line>": (83.0, "MB/s", 0.897),
        "readings": (1002.5, "", None),
        "1 GB, end read s": (0.0013, "", None),
        "1 GB, jump": (1000.0, "", None),
    }
    first = rows["output <a line>"]
    assert first.run == ("22 November 2026", "1e9b1fb", "A processor, 2 cores")
    assert (first.load, first.table) == (0.93, "Engine")


def test_the_page_beside_the_bench_is_one() -> None:
    tables = {row.table for row in history.read_page(_readme())}
    assert {"Engine", "Panel", "Sampler", "Live log", "Metrics page", "Trainer"} <= tables


def test_what_is_kept_is_read_and_each_table_of_it_has_its_picture() -> None:
    kept = history.read()
    assert len({row.run for row in kept}) >= 2
    for table in {row.table for row in kept}:
        assert history.file_of(table).is_file(), table


def test_a_row_is_written_down_once_and_the_newest_run_is_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    for page in (_page(), _page(), _page("2f00000, with changes", "91.5")):
        history.add(page, file)
    kept = history.read(file)
    assert kept == [*_page(), *_page("2f00000, with changes", "91.5")]
    said = history.last_said(kept, "Engine")
    assert said["output <a line>"] == "91.5 MB/s (76.4–89.6) at 2f00000"
    assert history.last_said(kept, "Panel") == {}


def test_a_plot_has_a_point_for_each_run_hollow_where_it_was_another_machine(
    tmp_path: Path,
) -> None:
    elsewhere = [row._replace(machine="another") for row in _page("0ld", "10")]
    history.draw([*elsewhere, *_page()], tmp_path)
    drawn = ElementTree.fromstring((tmp_path / "engine.svg").read_text(encoding="utf-8"))
    lines = [line.get("points", "").split() for line in drawn.iter(f"{NAMESPACE}polyline")]
    assert [len(line) for line in lines] == [2, 2, 2, 2]
    fills = [c.get("fill") for c in drawn.iter(f"{NAMESPACE}circle")]
    assert fills == ["white", "#4878a8"] * 4
    titles = [c[0].text or "" for c in drawn.iter(f"{NAMESPACE}circle")]
    assert titles[0].startswith("22 November 2026, 0ld, load 0.93: 10 MB/s")
    heights = [float(point.partition(",")[2]) for point in lines[0]]
    assert heights[1] < heights[0]


def _readme() -> str:
    return history.HISTORY.with_name("README.md").read_text(encoding="utf-8")
