"""Lengths of time, GPU lists, stop rungs."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runners.model.course import complete_ladder, parse_rung
from runners.model.program import parse_gpu_request
from runners.model.spec import GpuRequest, Rung
from runners.model.units import (
    counted,
    gpus_text,
    parse_duration,
    parse_gpu_ids,
)


def test_one_is_no_plural() -> None:
    assert [counted(count, "file") for count in (0, 1, 2000)] == [
        "0 files",
        "1 file",
        "2,000 files",
    ]
    assert [gpus_text(1), gpus_text(2, "H100")] == ["1 GPU", "2 H100 GPUs"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (90, 90), (0.5, 0.5), ("90", 90), ("90s", 90), ("90 sec", 90), ("10m", 600),
        ("10min", 600), ("2h", 7200),
        ("1d", 86400), ("1h30m", 5400), ("1h 30m 5s", 5405), ("1.5h", 5400), (" 2H ", 7200),
        ("0", 0), ("1000000", 1e6),
    ],
)  # fmt: skip
def test_lengths_of_time(text: str | int | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "-5s",
        "5x",
        "s",
        "1h-30m",
        "1,5h",
        "5s!",
        "inf",
        "nan",
        "1e3",
        True,
        "40000d",
    ],
)
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="such as 90s, 10m or 2h"):
        parse_duration(text)


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_parts_of_a_length_add_up(d: int, h: int, m: int, s: int) -> None:
    assert parse_duration(f"{d}d{h}h{m}m{s}s") == ((d * 24 + h) * 60 + m) * 60 + s


@given(st.text(max_size=12))
def test_no_text_breaks_the_grammars(text: str) -> None:
    for parse in (parse_duration, parse_gpu_ids, parse_gpu_request, parse_rung):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0", "0"),
        ("0-2,7", "0 1 2 7"),
        (" 3 , 1 ", "3 1"),
        (5, "5"),
        ([0, "2-3"], "0 2 3"),
        ("GPU-8a5b,MIG-1/2/0", "GPU-8a5b MIG-1/2/0"),
        ("SIM-MI300X-3", "SIM-MI300X-3"),
    ],
)
def test_gpu_lists(text: str | int | list[int | str], ids: str) -> None:
    assert parse_gpu_ids(text) == tuple(ids.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "0,,1",
        "a",
        "3-1",
        "-1",
        "0-",
        "0-2,1",
        "0,0",
        "1.5",
        "0-1000000000000",
        "all",
        "0-999," * 9999,
    ],
)
def test_what_is_no_gpu_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected GPU indices|is named twice"):
        parse_gpu_ids(text)


@given(st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=20))
def test_a_list_of_indices_comes_back_in_its_order(indices: list[int]) -> None:
    assert parse_gpu_ids(",".join(map(str, indices))) == tuple(map(str, indices))


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        (2, GpuRequest(count=2)),
        ("0", GpuRequest(count=0)),
        ("all", GpuRequest(count="all")),
        ("0-1", GpuRequest(ids=("0", "1"))),
        ("3,", None),
    ],
)
def test_gpu_requests(text: int | str, request_: GpuRequest | None) -> None:
    if request_ is None:
        with pytest.raises(ValueError, match="expected GPU indices"):
            parse_gpu_request(text)
    else:
        assert parse_gpu_request(text) == request_


@pytest.mark.parametrize(
    ("text", "rung"),
    [
        ("stop-file 600s", Rung("stop-file", 600)),
        ("SIGINT 1m", Rung("SIGINT", 60)),
        ("int 5", Rung("SIGINT", 5)),
        ("sigusr1 0", Rung("SIGUSR1", 0)),
        ("SIGKILL", Rung("SIGKILL", 5)),
        ("KILL 1s", Rung("SIGKILL", 1)),
        ("  SIGTERM   15 s ", Rung("SIGTERM", 15)),
    ],
)
def test_rungs(text: str, rung: Rung) -> None:
    assert parse_rung(text) == rung


@pytest.mark.parametrize(
    "text", ["", "SIG", "9 5s", "SIGINT", "stop-file", "STOP-FILE 5s", "SIGINT -1s", "SIGFOO 1s"]
)
def test_what_is_no_rung(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|needs a wait"):
        parse_rung(text)


@given(
    st.lists(
        st.sampled_from(
            ["stop-file 1s", "SIGINT 2s", "SIGTERM 3s", "SIGUSR1 0", "SIGKILL", "kill 9s"]
        ),
        min_size=1,
    )
)
def test_every_stop_rule_ends_in_sigkill_and_has_it_nowhere_else(ladder: list[str]) -> None:
    hard = [i for i, text in enumerate(ladder) if "kill" in text.lower()]
    if hard and hard[0] != len(ladder) - 1:
        with pytest.raises(ValueError, match="SIGKILL must be the last rung"):
            complete_ladder(ladder)
        return
    hows = [parse_rung(text).how for text in complete_ladder(ladder)]
    assert hows[-1] == "SIGKILL" and "SIGKILL" not in hows[:-1]
    assert len(hows) == len(ladder) + (not hard)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_range_has_both_its_ends(first: int, last: int) -> None:
    assume(first < last)
    ids = parse_gpu_ids(f"{first}-{last}")
    assert (ids[0], ids[-1], len(ids)) == (str(first), str(last), last - first + 1)
