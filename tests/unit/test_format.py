"""Numbers as people read them."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.model.run_ids import by_names
from runners.model.units import indices
from tui.views.format import (
    DASH,
    dollars,
    duration,
    energy,
    memory,
    metric,
    percent,
    size,
    sparkline,
    three_digits,
)


@pytest.mark.parametrize("show", [duration, size, memory, dollars, metric, percent])
def test_the_unknown_is_a_dash_never_zero(show: object) -> None:
    assert show(None) == DASH  # type: ignore[operator]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (59.4, "59s"), (59.6, "1m00s"), (252, "4m12s"), (3599.6, "1h00m"),
        (3600, "1h00m"),
        (5400, "1h30m"), (86399.9, "1d00h"), (187200, "2d04h"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (7_600_000, "7.6 MB"),
        (99_970, "100 kB"),
        (999_600, "1.0 MB"),
        (2e11, "200 GB"),
        (3e15, "3000 TB"),
    ],
)
def test_sizes_on_disk_are_decimal(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0B"), (1 << 10, "1.0K"), ((1 << 20) - 9, "1.0M"), (191 << 30, "191G"), (3 << 39, "1.5T")],
)
def test_sizes_in_memory_are_binary(count: int, text: str) -> None:
    assert memory(count) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"), ("0.001", "<$0.01"), ("0.01", "$0.01"), ("0.125", "$0.13"),
        ("0.135", "$0.14"),
        ("28.4", "$28.40"), ("1234.5", "$1,234.50"),
    ],
)  # fmt: skip
def test_dollars(amount: str, text: str) -> None:
    assert dollars(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2310, "2,310"),
        (0.18712, "0.1871"),
        (1e-5, "1e-05"),
        (3.0, "3"),
        (0.0, "0"),
        (123456.789, "1.235e+05"),
        (1e9, "1e+09"),
    ],
)
def test_metrics(value: float, text: str) -> None:
    assert metric(value) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 7], "0-2,7"), ([7, 0, 2, 3], "0,2-3,7"), ([0, 1], "0-1")],
)
def test_gpu_indices(numbers: list[int], text: str) -> None:
    assert indices(numbers) == text


@given(st.sets(st.integers(0, 200)))
def test_gpu_indices_lose_none(numbers: set[int]) -> None:
    spans = [span.split("-") for span in indices(list(numbers)).split(",") if span]
    assert {i for span in spans for i in range(int(span[0]), int(span[-1]) + 1)} == numbers


def test_the_energy_of_a_short_run_is_no_power_of_ten() -> None:
    assert [energy(wh) for wh in (0.0682, 640.0, 12_900.0)] == ["<0.1 Wh", "640 Wh", "12.9 kWh"]
    assert [energy(wh) for wh in (999.7, 999_700, 1_240_000)] == ["1 kWh", "1,000 kWh", "1,240 kWh"]
    assert [three_digits(rate) for rate in (0.012345, 99.96, 999.6)] == ["0.0123", "100", "1,000"]


def test_runs_are_called_by_their_names_and_paths_stay_as_they_are() -> None:
    run = "20261126-005156-a-run-1634"
    assert by_names(f"held by {run}, {run} waits") == "held by a-run, a-run waits"
    assert by_names(f"nothing in /state/runs/{run}/x") == f"nothing in /state/runs/{run}/x"


@pytest.mark.parametrize("values", [(1e308, -1e308), (1.7e308,) * 3, (1.0, math.inf, 2.0)])
def test_a_sparkline_of_what_a_float_hardly_holds(values: tuple[float, ...]) -> None:
    assert [len(sparkline(values, width)) for width in (1, 2)] == [1, 2]
