"""Curves as they go over a link: nothing that a person would see is lost, and little goes twice."""

import json
import math
from typing import Any

import pytest

from runners.places.ssh.curve_updates import CurveReader, CurveSender, Line
from runners.places.ssh.frames import CurvesFrame, decoded
from runners.watch.metrics.series import Series
from tests.support import make_run


def _series(values: list[float], name: str = "loss") -> Series:
    one = Series(name, "events", "nats")
    for i, value in enumerate(values):
        one.add(float(i), value, 1.0 + i // 10, 1000.0 + i)
    return one


def _over(sender: CurveSender, reader: CurveReader, line: Line) -> tuple[dict[str, Any], int]:
    """Take a message over; its fields as they came, and how many bytes it had."""
    fields, data = sender.news(line)
    fields = json.loads(json.dumps(fields))
    reader.take(decoded(fields, CurvesFrame), data)
    return fields, len(data)


def test_curves_arrive_and_grow() -> None:
    sender, reader, run = CurveSender(), CurveReader(), make_run(gpus=2)
    one = _series([3.0, math.nan, 1.0])
    one.begin_stage("stage 1/3")
    _over(sender, reader, [(run, {"loss": one})])
    before = reader.line[-1][1]["loss"]
    assert reader.line[-1][0] == run
    assert (before.unit, before.source, list(before.times)) == ("nats", "events", list(one.times))
    assert math.isnan(before.values[1]) and before.stages == [(2.0, "stage 1/3")]
    one.add(3.0, 0.5)
    fields, size = _over(sender, reader, [(run, {"loss": one})])
    assert size == 33 and "runs" not in fields
    assert list(reader.line[-1][1]["loss"].values)[2:] == [1.0, 0.5]
    assert len(before) == 3, "what is being drawn stays as it is"
    assert _over(sender, reader, [(run, {"loss": one})]) == ({}, 0)


def test_a_resumed_run_replaces_what_it_does_again() -> None:
    sender, reader, run = CurveSender(), CurveReader(), make_run()
    one = _series([9.0, 8.0, 7.0, 6.0])
    _over(sender, reader, [(run, {"loss": one})])
    one.add(2.0, 5.0)
    _over(sender, reader, [(run, {"loss": one})])
    assert list(reader.line[-1][1]["loss"].values) == [9.0, 8.0, 5.0]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_long_curve_is_thinned_and_keeps_its_spikes(at_once: bool) -> None:
    sender, reader, run = CurveSender(), CurveReader(), make_run()
    values = [1.0 + i % 7 / 100 for i in range(20_000)]
    values[777], values[12_345], values[15_000] = 50.0, -3.0, math.inf
    one, carried = Series("loss"), 0
    for i, value in enumerate(values):
        one.add(float(i), value)
        if not at_once and i % 50 == 0:
            carried += _over(sender, reader, [(run, {"loss": one})])[1]
    carried += _over(sender, reader, [(run, {"loss": one})])[1]
    there = reader.line[-1][1]["loss"]
    assert {50.0, -3.0, math.inf} <= set(there.values)
    assert there.last == one.last and there.steps[0] == 0.0
    assert list(there.steps) == sorted(there.steps)
    assert len(there) <= 4_500
    # What grows is thinned anew now and then; all of that is a small multiple of what grew.
    assert carried <= 33 * len(values) * (1 if at_once else 2)


def test_a_metric_that_goes_away_goes_away() -> None:
    sender, reader, run = CurveSender(), CurveReader(), make_run()
    loss, other = _series([1.0]), _series([2.0], "psnr")
    _over(sender, reader, [(run, {"loss": loss, "psnr": other})])
    _over(sender, reader, [(run, {"psnr": other})])
    assert list(reader.line[-1][1]) == ["psnr"]


def test_what_is_not_whole_is_refused() -> None:
    fields, data = CurveSender().news([(make_run(), {"loss": _series([1.0, 2.0])})])
    with pytest.raises(ValueError, match="not whole"):
        CurveReader().take(decoded(fields, CurvesFrame), data[:-1])
    with pytest.raises(ValueError, match="array"):
        decoded({"runs": 7}, CurvesFrame)
