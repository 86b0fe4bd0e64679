"""The run table: order, groups, columns, and names that stay apart."""

import pytest

from runners.model.errors import WrongInput
from runners.model.states import State
from runners.places.run_row import RunRow, pack_settings
from tests.unit.test_run_query import NOW, row
from tui.views.runs.named_columns import named_columns
from tui.views.runs.row_reading import age_text
from tui.views.runs.run_columns import (
    TableContext,
    fit_columns,
    heading_of,
    remark_span,
)
from tui.views.runs.run_query import parse_query
from tui.views.runs.run_sort import SortKey, parse_sort, sort_rows
from tui.views.runs.run_table import Arranger, FoldedGroup, TableChoice, group_mark, group_row
from tui.views.runs.short_names import last_parts, short_names


def names(rows: object) -> list[str]:
    return [one.name for one in rows]  # type: ignore[attr-defined]


def live(name: str, **fields: object) -> RunRow:
    return row(name, **{"state": State.RUNNING, "is_live": True, **fields})  # type: ignore[arg-type]


def test_the_best_comes_first_by_what_better_means_and_unknown_last() -> None:
    rows = [row("a", last=0.3), row("b", last=None, packed=b"\x80"), row("c", last=0.1)]
    assert names(sort_rows(rows, parse_sort("loss"))) == ["c", "a", "b"]
    assert names(sort_rows(rows, parse_sort("-loss"))) == ["a", "c", "b"]
    assert names(sort_rows(rows, parse_sort("best:psnr,name"))) == ["a", "c", "b"]


def test_several_keys_and_what_is_alike_keeps_its_place() -> None:
    rows = [row("b", seconds=1.0), row("a", seconds=9.0), row("a", seconds=5.0)]
    found = sort_rows(rows, parse_sort("name,elapsed-"))
    assert [(one.name, one.seconds) for one in found] == [("a", 5.0), ("a", 9.0), ("b", 1.0)]


@pytest.mark.parametrize("width", [50, 120])
def test_settings_and_metrics_are_columns_beside_the_name(width: int) -> None:
    rows = [
        row("a", packed_settings=pack_settings({"lr": "3e-4", "kind": "adam\nw"})),
        row("b", packed_settings=pack_settings({"lr": "0.1"})),
    ]
    named = named_columns(["set:lr", "set:kind", "best:", "set:", "odd"], rows)
    cells = fit_columns(width, named=named)
    assert [cell.column.key for cell in cells[:4]] == ["state", "name", "set:lr", "set:kind"]
    texts = [cell.column.text(rows[0], TableContext(NOW), cell.width) for cell in cells[2:4]]
    assert texts == ["3e-4", "adam …"]
    assert [cell.column.right for cell in cells[2:4]] == [True, False]
    failed = row(state=State.FAILED, remark="RuntimeError: no space left " * 9)
    assert remark_span(failed, cells)[0] >= cells[3].start + cells[3].width


@pytest.mark.parametrize("text", ["", "name,", "best:"])
def test_a_sort_without_a_column_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match="a column is missing"):
        parse_sort(text)


def test_what_lives_is_on_top_and_a_group_stands_together_or_folded() -> None:
    running = live("b2", group="both", created=NOW - 5)
    ended = (row("new"), row("b1", group="both", created=NOW - 9), row("old"))
    arranger = Arranger()
    table = arranger.arrange([running], ended, 1, TableChoice())
    assert names(table.lines) == ["b1", "b2", "new", "old"]
    assert [group_mark(table.lines, at) for at in range(4)] == ["┌ ", "└ ", "", ""]
    folded = arranger.arrange([running], ended, 1, TableChoice(folded=frozenset({"both"})))
    assert isinstance(folded.lines[0], FoldedGroup) and len(folded.keys) == 3
    assert folded.runs == table.runs == 4
    # In an order of their own it stands where its first run does.
    choice = TableChoice(sort=parse_sort("name-"), folded=frozenset({"both"}))
    by_name = arranger.arrange([running], ended, 1, choice)
    assert [names(group.rows) for group in by_name.lines if isinstance(group, FoldedGroup)] == [
        ["b2", "b1"]
    ]
    assert by_name.runs == 4 and len(by_name.keys) == 3
    assert by_name.keys[2] == FoldedGroup("both", ()).id


def test_a_filter_and_an_order_hold_for_live_and_ended_runs_alike() -> None:
    ended = tuple(row(f"run-{i}", last=i / 10) for i in range(5))
    running = live("run-live", last=0.25)
    choice = TableChoice(parse_query("loss<0.35", NOW), (SortKey("last"),))
    arranger = Arranger()
    table = arranger.arrange([running], ended, 1, choice)
    assert names(table.lines) == ["run-0", "run-1", "run-2", "run-live", "run-3"]
    assert (table.runs, table.total) == (5, 6)
    assert arranger.is_ready(1, [running], choice) and not arranger.is_ready(2, [running], choice)


@pytest.mark.parametrize(("width", "wanted"), [(42, "last"), (66, "elapsed"), (120, "reason")])
def test_columns_fill_the_width_and_never_more(width: int, wanted: str) -> None:
    cells = fit_columns(width, {"cost"})
    keys = [cell.column.key for cell in cells]
    assert {"state", "name", "progress", "last", "eta"} <= set(keys) and wanted in keys
    assert cells[-1].start + cells[-1].width <= width and "cost" not in keys


@pytest.mark.parametrize("width", [42, 58, 66, 74, 80, 92, 104])
def test_a_long_state_is_whole_and_costs_no_column(width: int) -> None:
    plain = fit_columns(width)
    cells = fit_columns(width, longest_state=len(State.CANCELLED))
    assert cells[0].width >= len("cancelled")
    assert [cell.column.key for cell in cells] == [cell.column.key for cell in plain]
    assert cells[-1].start + cells[-1].width <= width


def test_the_reason_takes_the_place_of_what_a_queued_or_failed_run_has_not() -> None:
    cells = fit_columns(42)
    waits = row(state=State.QUEUED, remark="GPU 2 held by big", last=None, started=None)
    start, end = remark_span(waits, cells)
    assert end - start >= 14
    assert remark_span(row(), cells) == (0, 0)


@pytest.mark.parametrize(
    "remark", ["out of GPU memory (log line 1)", "no such file: 'data/train.bin'"]
)
def test_reasons_of_what_never_trained_stand_below_each_other(remark: str) -> None:
    cells = fit_columns(74)
    failed = row(state=State.FAILED, last=None, fraction=None, remark=remark)
    progress = next(cell for cell in cells if cell.column.key == "progress")
    assert remark_span(failed, cells)[0] == progress.start
    trained = row(state=State.FAILED, last=0.5, remark=remark)
    assert remark_span(trained, cells)[0] > progress.start


def test_the_heading_names_the_metric_and_shows_the_direction() -> None:
    last = next(cell for cell in fit_columns(60) if cell.column.key == "last")
    assert heading_of(last, TableContext(NOW, "val/psnr"), ()).strip() == "psnr"
    age = next(cell for cell in fit_columns(60) if cell.column.key == "age")
    assert heading_of(age, TableContext(NOW), (SortKey("age"),)) == "age▲"
    assert heading_of(age, TableContext(NOW), (SortKey("age", True),)) == "age▼"


def test_names_are_cut_where_they_agree() -> None:
    every = ["vit-small-patch16-lr1e-3", "vit-small-patch16-lr1e-4", "resnet50-long-schedule-a"]
    shown = short_names(every, 14)
    assert len(set(shown.values())) == 3 and all(len(name) <= 14 for name in shown.values())
    assert shown[every[0]].endswith("lr1e-3") and shown[every[2]].startswith("resnet50")


def test_runs_of_a_sweep_are_told_apart_in_ten_cells() -> None:
    every = [f"resnet50-sweep-lr{lr}-seed{seed}" for lr in ("1e-4", "3e-4") for seed in range(3)]
    for width in (10, 12, 20):
        shown = short_names(every, width)
        assert len(set(shown.values())) == 6 and all(len(name) <= width for name in shown.values())


def test_runs_below_their_group_s_mark_are_called_by_what_differs() -> None:
    every = [f"train-lr{lr}-seed{seed}" for lr in ("0.05", "0.1", "0.3") for seed in range(2)]
    assert last_parts(every, 11)[every[0]] == "…0.05-seed0"
    assert len(set(last_parts(every, 9).values())) == 6
    # Where they end alike, or the end is not all that differs: the values.
    assert set(last_parts(["a-wd0.1-seed0", "b-wd0.1-seed0"], 9).values()) == {"a", "b"}
    every = [f"vit-small-lr{lr}-wd{wd}-seed0" for lr in ("1e-3", "3e-3") for wd in ("0.0", "0.01")]
    assert set(last_parts(every, 11).values()) == {"1e-3 0.0", "1e-3 0.01", "3e-3 0.0", "3e-3 0.01"}
    kinds = [f"x-{kind}-lr0.1-long" for kind in ("adam", "adamw", "sgd")]
    assert set(last_parts(kinds, 9).values()) == {"adam", "adamw", "sgd"}
    # What has other parts is cut as elsewhere.
    others = ["vit-small-lr1e-3", "vit-small-lr3e-3", "vit-small-lr3e-3-again"]
    assert last_parts(others, 4) == short_names(others, 4)


@pytest.mark.parametrize(
    ("seconds", "words"), [(4, "4s"), (720, "12m"), (10800, "3h"), (200000, "2d"), (2e6, "3w")]
)
def test_an_age_has_one_part(seconds: float, words: str) -> None:
    assert age_text(seconds) == words


def test_a_folded_group_has_the_gpus_of_its_runs_and_is_none_of_the_cpu() -> None:
    ended = (row("a", gpus=(0, 1), group="g"), row("b", gpus=(3,), group="g"))
    assert group_row(FoldedGroup("g", ended)).gpus == (0, 1, 3)
    partly = (live("a", gpus=(2,), group="g"), row("b", gpus=(3,), group="g"))
    assert group_row(FoldedGroup("g", partly)).gpus == (2,)


@pytest.mark.parametrize("losses", [(float("nan"), 0.5), (0.5, float("nan"))])
def test_the_best_of_a_folded_group_is_none_that_diverged(losses: tuple[float, float]) -> None:
    rows = tuple(row("vit", group="sweep", last=loss) for loss in losses)
    assert group_row(FoldedGroup("sweep", rows)).last == 0.5
