"""Charts as SVG: valid XML whatever the words, every curve, its numbers, and no value outside."""

import math
import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from tui.views.metrics.chart_svg import SvgCurve, chart_svg
from tui.views.metrics.curves import BestValue, Curve

_SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


def line(values: list[float], label: str = "run", **more: object) -> SvgCurve:
    xs = [float(i) for i in range(len(values))]
    return SvgCurve(label, Curve(xs, values)._replace(**more))  # type: ignore[arg-type]


def test_curves_axes_legend_and_seam_are_there() -> None:
    best = BestValue(0.1, 90.0)
    first = line([1 - i / 100 for i in range(91)], "lr 1e-3", best=best, seams=(40.0,))
    svg = chart_svg("loss", [first, line([0.5] * 91, "lr 1e-4", lost=2)], unit="nats")
    words = texts(svg)
    assert words[0] == "loss [nats]" and "step" in words
    assert "lr 1e-3 · last 0.1 · best 0.1 at step 90" in words
    assert "lr 1e-4 · last 0.5 · 2 not finite" in words
    assert {"0", "0.2", "0.4", "0.6", "0.8", "1"} <= set(words), "round numbers at the y axis"
    assert "lr 1e-3: resumed" in svg and svg.count("<circle") == 2


def test_stages_are_named_where_they_begin() -> None:
    named = line([0.5] * 91, stages=((0.0, "stage 1/2"), (45.0, "stage 2/2")))
    words = texts(chart_svg("loss", [named]))
    assert {"stage 1/2", "stage 2/2"} <= set(words)
    assert "stage" not in chart_svg("loss", [line([0.5] * 91, stages=((0.0, "stage 1/2"),))])


def test_a_constant_metric_has_one_number_and_a_line_in_the_middle() -> None:
    svg = chart_svg("lr", [line([0.0] * 5)], height=200)
    assert [word for word in texts(svg) if word.startswith("-")] == []
    assert re.search(r'd="M[\d.]+ 130\.0L', svg), "half of the height below the title"


def test_logarithms_have_powers_of_ten() -> None:
    words = texts(chart_svg("loss", [line([1000.0, 10.0, 1.0, 0.1])], log=True))
    assert {"0.1", "1", "10", "100", "1k"} <= set(words) and "step · logarithmic" in words


def test_times_and_money_are_written_as_such() -> None:
    hours = Curve([0.0, 7200.0], [1.0, 2.0])
    assert {"0s", "30m", "60m", "2.0h"} <= set(
        texts(chart_svg("x", [SvgCurve("a", hours)], "time"))
    )
    assert "$1.5" in texts(chart_svg("x", [SvgCurve("a", Curve([0, 3], [1, 2]))], "dollars"))


def test_a_part_of_the_axis_scales_to_what_is_in_it() -> None:
    values = [1000.0 if i < 100 else i / 1000 for i in range(1001)]
    assert "1k" in texts(chart_svg("x", [line(values)]))
    assert {"0.6", "0.8", "1"} <= set(texts(chart_svg("x", [line(values)], low=500, high=1000)))
    assert "no values" in " ".join(texts(chart_svg("x", [line([])])))
    assert "only NaN" in " ".join(texts(chart_svg("x", [line([math.nan])])))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(), max_size=30), max_size=9),
    st.text(max_size=12),
    st.booleans(),
    st.floats(0, 40),
)
def test_whatever_comes_it_is_valid_and_inside(
    values: list[list[float]], words: str, log: bool, low: float
) -> None:
    svg = chart_svg(words, [line(one, words + "<&\x00\x1b\"'") for one in values], log=log, low=low)
    root = ElementTree.fromstring(svg)
    height = float(root.attrib["height"])
    for path in root.iter(f"{_SVG}path"):
        assert "nan" not in path.attrib["d"] and "inf" not in path.attrib["d"]
    for dot in root.iter(f"{_SVG}circle"):
        assert 0 <= float(dot.attrib["cx"]) <= 720 and 0 <= float(dot.attrib["cy"]) <= height
