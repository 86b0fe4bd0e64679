"""Curves as they are drawn: no spike lost, no line broken, values where the cursor is, nothing
drawn again in vain.
"""

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment

from runners.model.run import Run
from runners.model.states import State
from tests.support import make_run
from tui.panel.widgets.metrics.canvas import Canvas
from tui.panel.widgets.metrics.chart import ChartCurve, Row, _labels, draw_chart
from tui.panel.widgets.metrics.chart_model import ChartModel
from tui.panel.widgets.metrics.chart_request import ChartOptions, ChartRequest, RunCurve
from tui.panel.widgets.metrics.grid import changed_cells
from tui.snapshot import curve_store
from tui.views.format import axis_time
from tui.views.metrics.curves import Curve, smooth
from tui.views.metrics.scales import Scale, clock_ticks, scale_for, short, stride, ticks

SIMPLE = settings(max_examples=150, deadline=None)


def text(rows: tuple[Row, ...]) -> list[str]:
    return ["".join(segment.text for segment in row) for row in rows]


def chart(
    *curves: Curve,
    width: int = 60,
    height: int = 12,
    look: ChartOptions | None = None,
    pinned: int = -1,
) -> list[str]:
    lines = [
        ChartCurve(chr(ord("A") + i), "red", curve, i == pinned) for i, curve in enumerate(curves)
    ]
    return text(draw_chart("loss", lines, width, height, look or ChartOptions()))


def rising(count: int) -> list[float]:
    return [float(i) for i in range(count)]


def test_a_diagonal_goes_through_its_cells_and_no_others() -> None:
    canvas = Canvas(4, 4)
    canvas.draw([(0, 15), (7, 0)], 0)
    for y in range(4):
        row = "".join(piece for piece, _ in canvas.row(y))
        assert row[3 - y] != " " and all(row[x] == " " for x in range(4) if abs(x - (3 - y)) > 1)


def test_the_stages_of_a_training_are_named_where_they_begin() -> None:
    names = ((0.0, "stage 1/3"), (20.0, "stage 2/3"), (40.0, "stage 3/3"))
    rows = chart(Curve(rising(60), rising(60), stages=names), width=70)
    places = [rows[1].index(name) for _, name in names]
    assert places == sorted(places) and all(rows[1][at - 1] == "┆" for at in places)
    assert sum("┆" in row for row in rows) >= 8, "a line down to the axis"
    zoomed = ChartOptions(low=0.5)
    assert "stage 2/3" not in "".join(
        chart(Curve(rising(60), rising(60), stages=names), look=zoomed)
    )
    assert "┆" not in "".join(chart(Curve(rising(60), rising(60), stages=names[:1])))


def test_what_lies_outside_is_not_drawn() -> None:
    canvas = Canvas(4, 2)
    canvas.draw([(-50, -90), (60, 90)], 0)
    canvas.draw([(9, 0), (12, 3)], 0)
    canvas.draw([(0, -20), (7, -20)], 1)
    assert all(len("".join(piece for piece, _ in canvas.row(y))) == 4 for y in range(2))
    assert not any(owner == 1 for y in range(2) for _, owner in canvas.row(y))


@SIMPLE
@given(
    st.lists(st.tuples(st.floats(-10, 200), st.floats(-100, 100)), max_size=60),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_any_line_fits_its_canvas(
    points: list[tuple[float, float]], width: int, height: int
) -> None:
    canvas = Canvas(width, height)
    canvas.draw(sorted(points), 0)
    for y in range(height):
        assert len("".join(piece for piece, _ in canvas.row(y))) == width


def test_one_spike_among_thousands_of_values_reaches_the_top() -> None:
    values = [1.0] * 30_000
    values[20_000] = 100.0
    rows = chart(Curve(rising(30_000), values))
    plot = [row.split("│" if "│" in row else "┤")[1] for row in rows[1:-1]]
    assert 36 <= plot[0].rstrip().rfind(plot[0].strip()[0]) <= 41, (
        "at two thirds of the width, in the top row"
    )
    assert "A" in plot[-1], "its letter stands where it ends"


@SIMPLE
@given(
    st.lists(
        st.lists(st.floats(allow_nan=True, width=32), min_size=0, max_size=40),
        min_size=1,
        max_size=3,
    ),
    st.integers(20, 120),
    st.integers(3, 30),
    st.booleans(),
    st.floats(0, 0.9),
    st.none() | st.floats(0, 1),
)
def test_any_values_make_a_chart_of_the_size_asked_for(
    values: list[list[float]], width: int, height: int, log: bool, low: float, cursor: float | None
) -> None:
    curves = [Curve(rising(len(one)), one) for one in values]
    rows = chart(
        *curves,
        width=width,
        height=height,
        look=ChartOptions("step", log, low, 1.0, cursor, lettered=True),
    )
    assert len(rows) == height and {len(row) for row in rows} == {width}


def test_the_title_tells_the_newest_values_or_those_under_the_cursor() -> None:
    first, second = (
        Curve(rising(101), [float(i) for i in range(101)]),
        Curve(rising(101), [5.0] * 101),
    )
    assert chart(first, second)[0].split() == ["loss", "A", "100", "B", "5"]
    assert chart(first, second, look=ChartOptions(cursor=0.25))[0].split() == [
        "loss",
        "A",
        "25",
        "B",
        "5",
    ]
    assert "25" in chart(first, second, look=ChartOptions(cursor=0.25))[-1]
    assert chart(first, second, pinned=1)[0].split() == ["loss", "★B", "5", "A", "100"]


def test_a_loss_that_went_away_is_said() -> None:
    assert "⚠NaN" in chart(Curve(rising(3), [1.0, 2.0, math.nan], 1))[0]
    assert "⚠" in chart(Curve(rising(3), [1.0, math.nan, 2.0], 1))[0]
    assert "only NaN or infinite" in "".join(chart(Curve(rising(2), [math.nan, math.inf], 2)))
    assert "no values" in "".join(chart())


def test_a_part_of_the_axis_scales_to_what_is_in_it() -> None:
    curve = Curve(rising(1001), [1000.0 if i < 100 else i / 1000 for i in range(1001)])
    whole, part = chart(curve), chart(curve, look=ChartOptions(low=0.5, high=1.0))
    assert whole[1].startswith(" 1k┤") and part[1].startswith("  1┤")
    assert part[-1].split() == ["└", "╵600", "╵800", "1k╵"]
    assert whole[-1].split() == ["└╵0", "╵500", "1k╵"]


@SIMPLE
@given(st.floats(1, 1e6), st.integers(30, 200), st.floats(0, 0.9), st.none() | st.floats(0.01, 1))
def test_numbers_below_a_chart_stand_below_their_places(
    last: float, width: int, low: float, cursor: float | None
) -> None:
    curve = Curve([0.0, last], [1.0, 2.0])
    options = ChartOptions(low=low, cursor=cursor)
    row = chart(curve, width=width, look=options)[-1]
    begin, end = low * last, last
    first = row.index("└") + 1
    for found in re.finditer(r"╵([\d.]+[kM]?)|([\d.]+[kM]?)╵|┊([\d.]+[kM]?)", row):
        text = next(filter(None, found.groups()))
        value = float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)
        column = found.start() + (0 if found[2] is None else len(text))
        place = (value - begin) / (end - begin) * (width - first)
        slack = 0.006 * abs(value) / (end - begin) * (width - first)
        assert abs(column - first - place) <= 1.5 + slack


def test_runs_without_room_in_the_title_are_counted() -> None:
    curves = [Curve(rising(101), [float(i)] * 101) for i in range(10, 22)]
    title = chart(*curves, width=40)[0]
    shown = [word for word in title.split() if word.isalpha() and word.isupper()]
    assert title.split()[-1] == f"+{12 - len(shown)}" and len(shown) >= 3
    whole = chart(*curves, width=120)[0]
    assert "+" not in whole


def test_logarithms_spread_small_values() -> None:
    curve = Curve(rising(4), [1000.0, 100.0, 10.0, 1.0])
    straight = [
        row
        for row in chart(curve, look=ChartOptions(log=True))[1:-1]
        if row.split("┤")[-1].split("│")[-1].strip()
    ]
    bent = [row for row in chart(curve)[1:-1] if row.split("┤")[-1].split("│")[-1].strip()]
    assert len(straight) == 10 and len(bent) >= 8
    assert chart(Curve(rising(3), [0.0, -1.0, 5.0]), look=ChartOptions(log=True)), (
        "what has no logarithm lies at the bottom"
    )


def test_scales_and_numbers() -> None:
    assert (
        scale_for(0.1, 1.0, False).low,
        scale_for(5, 5, False).low < 5 < scale_for(5, 5, False).high,
    ) == (0, True)
    assert [short(x) for x in (0, 0.01234, 1e-5, 12345, 2e6, -3.5)] == [
        "0",
        "0.0123",
        "1.0e-5",
        "12.3k",
        "2M",
        "-3.5",
    ]
    assert [axis_time(x) for x in (5, 600, 7200, 500_000)] == ["5s", "10m", "2.0h", "5.8d"]


def test_smoothing_follows_and_does_not_begin_at_zero() -> None:
    smoothed = smooth([10.0] * 5 + [math.nan] + [20.0] * 50, 0.6)
    assert list(smoothed[:5]) == pytest.approx([10.0] * 5) and math.isnan(smoothed[5])
    assert 10 < smoothed[6] < 20 and smoothed[-1] == pytest.approx(20, abs=1e-3)
    assert smooth([1.0, 2.0], 0.0) == [1.0, 2.0]
    assert set(smooth([1e-4] * 50, 0.9)) == {1e-4}, "a constant stays one, without rounding"


def a_run(folder: Path, losses: list[float], letter: str) -> RunCurve:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "events.jsonl").open("w") as file:
        for i, loss in enumerate(losses, 1):
            values = {"lr": 0.1, "loss": loss}
            line = {"time": 1000.0 + i, "type": "metrics", "epoch": 1, "step": i, "values": values}
            file.write(json.dumps(line) + "\n")
    run: Run = make_run(State.RUNNING, id=folder.name, directory=str(folder))
    return RunCurve(run, letter, "red")


def asked(*marks: RunCurve, **changes: object) -> ChartRequest:
    return ChartRequest(marks, 120, 40, ChartOptions())._replace(**changes)  # type: ignore[arg-type]


def test_only_a_chart_whose_values_changed_is_drawn_anew(tmp_path: Path) -> None:
    mark = a_run(tmp_path / "one", [3.0, 2.0, 1.0], "A")
    book = ChartModel()
    assert book.read([mark]) is False
    before = book.draw(asked(mark))
    assert before.names == ("loss", "lr"), "the loss comes first"
    again = book.draw(asked(mark))
    assert all(one is other for one, other in zip(before.charts, again.charts, strict=True))
    with (tmp_path / "one" / "events.jsonl").open("a") as file:
        file.write('{"time": 1009, "type": "metrics", "step": 9, "values": {"loss": 0.5}}\n')
    book.read([mark])
    after = book.draw(asked(mark))
    assert after.charts[0] is not before.charts[0] and after.charts[1] is before.charts[1]
    assert "A 0.5" in text(after.charts[0].rows)[0]


def test_a_long_run_is_read_in_pieces_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curve_store, "_PATIENCE_S", 0.0)
    mark = a_run(tmp_path / "one", [float(i) for i in range(5000, 0, -1)], "A")
    book, pieces = ChartModel(), 1
    while book.read([mark]):
        pieces += 1
    assert pieces > 3
    assert "A 1 " in text(book.draw(asked(mark)).charts[0].rows)[0]


def test_over_time_a_run_without_times_is_shown_by_its_steps(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("".join(f"step {i}/9 | loss: {i}\n" for i in range(1, 9)))
    book, mark = (
        ChartModel(),
        RunCurve(make_run(State.DONE, directory=str(tmp_path), ended=2000.0), "A", "red"),
    )
    while book.read([mark]):
        pass
    rows = text(book.draw(asked(mark, options=ChartOptions("time"))).charts[0].rows)
    assert "A 8" in rows[0] and rows[-1].split()[-1] == "(step)"


def test_runs_are_overlaid_and_forgotten_when_they_are_no_longer_marked(tmp_path: Path) -> None:
    one, two = a_run(tmp_path / "one", [3.0, 1.0], "A"), a_run(tmp_path / "two", [5.0, 4.0], "B")
    book = ChartModel()
    book.read([one, two])
    both = text(book.draw(asked(one, two)).charts[0].rows)
    assert both[0].split()[1:] == ["A", "1", "↓1@2", "B", "4", "↓4@2"]
    assert any("B" in row for row in both[1:])
    book.read([two])
    assert text(book.draw(asked(two)).charts[0].rows)[0].split()[1:] == [
        "B",
        "4",
        "↓4@2",
    ]
    assert not book.draw(asked(one)).names, "what is not marked is not kept"


def test_pages_filter_and_focus(tmp_path: Path) -> None:
    mark = a_run(tmp_path / "one", [1.0], "A")
    with (tmp_path / "one" / "events.jsonl").open("a") as file:
        values = {f"m{i:02}": 1.0 for i in range(30)}
        file.write(json.dumps({"time": 1.0, "type": "metrics", "step": 9, "values": values}) + "\n")
    book = ChartModel()
    book.read([mark])
    page = book.draw(asked(mark))
    assert len(page.names) == 32 and len(page.charts) == page.per_page < 32
    second = book.draw(asked(mark, focus=page.per_page))
    assert second.first == page.per_page and second.charts[0].name == page.names[page.per_page]
    filtered = book.draw(asked(mark, pattern="^M0[12]$"))
    assert filtered.names == ("m01", "m02") and filtered.hidden == 30
    broken = book.draw(asked(mark, pattern="m0["))
    assert "not a regular expression" in broken.problem
    alone = book.draw(asked(mark, alone=True, focus=5))
    assert [one.name for one in alone.charts] == [alone.names[5]] and alone.charts[0].width == 120
    for shown in (page, second, filtered):
        for one in shown.charts:
            assert (
                one.x + one.width <= 120
                and one.y + one.height <= 40
                and len(one.rows) == one.height
            )


@pytest.mark.parametrize("rows", [3, 8, 20])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("least", "most"), [(0.0123, 0.987), (-3.0, 8.1), (1e-4, 3.3e-3)])
def test_numbers_beside_an_axis_are_round_each_beside_its_own_row(
    rows: int, log: bool, least: float, most: float
) -> None:
    scale = scale_for(least, most, log)
    labels = _labels(scale, rows)
    values = ticks(scale, max(2, rows // 3))
    assert 2 <= len(labels) <= rows
    for value in values:
        steps = value / 10 ** math.floor(math.log10(abs(value))) if value else 1.0
        assert steps == pytest.approx(round(steps, 1))
        assert 0 <= scale.place(value) <= 1


@pytest.mark.parametrize("most", [2, 3, 4, 6])
@pytest.mark.parametrize(
    ("low", "high"), [(62, 137), (0.01, 1.81), (40, 86), (1, 172), (0, 200), (2.1, 2.9)]
)
def test_an_axis_has_two_round_numbers_however_small_it_is(
    low: float, high: float, most: int
) -> None:
    for values in (ticks(Scale(low, high), most), clock_ticks(Scale(low, high), most)):
        assert 2 <= len(values) <= most + 3 and low <= values[0] <= values[-1] <= high
    first, second, *_ = ticks(Scale(low, high), most)
    assert stride(second - first) == pytest.approx(second - first)


def test_what_smoothing_leaves_of_a_constant_is_no_curve_on_a_logarithmic_axis() -> None:
    noisy = scale_for(1e-4, 1e-4 * (1 + 1e-14), log=True)
    assert noisy.constant == pytest.approx(1e-4) and len(_labels(noisy, 12)) == 1


def test_a_name_of_wide_letters_takes_no_more_room_than_others() -> None:
    for curves in ([], [ChartCurve("A", "red", Curve([1.0], [2.0]))]):
        row = draw_chart("損失関数", curves, 40, 8, ChartOptions())[0]
        assert cell_len("".join(segment.text for segment in row)) == 40


@pytest.mark.parametrize("name", ["loss", "損失"])
def test_the_changed_cell_of_a_row_is_among_those_that_are_painted(name: str) -> None:
    old, new = ((Segment(f" {name} "), Segment(f"0.2{digit}")) for digit in (5, 6))
    start, end = changed_cells(old, new)
    assert start < cell_len(f" {name} 0.26") <= end


def test_a_loss_that_is_infinite_is_no_nan() -> None:
    title = chart(Curve(rising(3), [1.0, 2.0, math.inf], 1))[0]
    assert "⚠" in title and "inf" in title and "NaN" not in title


@pytest.mark.parametrize("greatest", [5e-324, 3e-322, 1e-310])
def test_a_scale_of_hardly_anything_has_numbers(greatest: float) -> None:
    assert ticks(scale_for(0.0, greatest, False), 4)
