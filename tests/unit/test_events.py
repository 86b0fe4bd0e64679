"""events.jsonl as it is followed: half lines, garbage, truncation, size, and when the run should
end.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.watch.metrics.event_reader import HEAD_BYTES, TAIL_BYTES
from runners.watch.metrics.event_stream import EventStream


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def line(kind: str, time: float = 1.0, **fields: Any) -> bytes:
    return json.dumps({"time": time, "type": kind, **fields}).encode() + b"\n"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_no_file_yet_is_no_news(path: Path) -> None:
    stream = EventStream(path)
    assert stream.poll() is False
    append(path, line("metrics", step=3, values={"loss": 0.5}))
    assert stream.poll() is True and stream.poll() is False
    assert (stream.step, stream.metrics) == (3, {"loss": 0.5})


def test_a_line_counts_when_it_is_whole(path: Path) -> None:
    stream = EventStream(path)
    whole = line("metrics", step=7, values={"loss": 0.25})
    for i in range(len(whole) - 1):
        append(path, whole[i : i + 1])
        assert stream.poll() and stream.step is None
    append(path, whole[-1:])
    assert stream.poll() and stream.step == 7


@pytest.mark.parametrize(
    "garbage",
    [
        b"not json\n",
        b"\n",
        b"\0\0\0\n",
        b"\xff\xfe\n",
        b"null\n",
        b"[]\n",
        b"3\n",
        b"{}\n",
        b'{"type": "metrics"}\n',
        b'{"time": 1, "type": "metrics", "step": "many"}\n',
        b'{"time": 1, "type": "metrics", "values": {"loss": "low"}}\n',
        b"[" * 100_000 + b"\n",
        b'{"time": 1e999, "type": "x"}\n',
        b'{"time": 1, "type": "checkpoint", "path": "/caf\xe9.pt"}\n',
        b'{"time": 1, "type": "metrics", "step": 9, "values": {"loss": 1' + b"0" * 400 + b"}}\n",
    ],
    ids=range(15),
)
def test_garbage_is_passed_over(path: Path, garbage: bytes) -> None:
    path.write_bytes(
        line("metrics", step=1, values={"loss": 1.0})
        + garbage
        + line("metrics", step=2, values={"x": 2})
    )
    stream = EventStream(path)
    stream.poll()
    assert stream.step == 2 and stream.metrics["x"] == 2 and list(stream.trend) == [1.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_no_word_for_is_what_it_is(path: Path, value: float) -> None:
    """As Python's json.dumps writes it; with the other numbers of its line it would be lost."""
    event = {"time": 1, "type": "metrics", "step": 3, "values": {"loss": value, "lr": 0.5}}
    path.write_text(json.dumps(event | {"caption": "NaN, Infinity"}) + "\n")
    stream = EventStream(path)
    stream.poll()
    assert stream.step == 3 and stream.metrics["lr"] == 0.5
    assert repr(stream.metrics["loss"]) == repr(value)


@pytest.mark.parametrize(
    ("odd", "step"),
    [
        (b'"step": 7, "values": {"loss": 0.5, "warm": true, "note": "first", "all": [1]}', 7),
        (b'"step": 7.0, "values": {"loss": 0.5}', 7),
        (b'"step": 7, "epoch": 0.5, "values": {"loss": 0.5}', 7),
    ],
)
def test_one_odd_field_costs_an_event_that_field_alone(path: Path, odd: bytes, step: int) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + b'{"time": 1, "type": "metrics", ' + odd + b"}\r\n")
    stream = EventStream(path)
    stream.poll()
    assert (stream.step, stream.metrics, stream.epoch or 1) == (step, {"loss": 0.5}, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.just(b"\n"),
            st.just(line("metrics", step=1, values={"loss": 1})),
        )
    )
)
def test_no_bytes_break_it(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    stream = EventStream(path)
    for piece in pieces:
        append(path, piece)
        stream.poll()
        stream.progress(2.0)
    append(path, b"\n" + line("metrics", step=99))
    assert stream.poll() and stream.step == 99


def test_unknown_events_and_fields_are_let_through(path: Path) -> None:
    path.write_bytes(
        line("dream", colour="blue", step=4)
        + line("metrics", step=5, values={"psnr": 21.3}, extra=[1])
    )
    stream = EventStream(path)
    stream.poll()
    assert (stream.step, stream.metrics) == (5, {"psnr": 21.3})


def test_a_truncated_file_is_read_anew(path: Path) -> None:
    path.write_bytes(
        b"".join(line("metrics", step=i, values={"loss": 1.0, "old": 1}) for i in range(50))
    )
    stream = EventStream(path)
    stream.poll()
    path.write_bytes(line("metrics", step=1, values={"loss": 2.0}))
    assert stream.poll()
    assert (stream.step, stream.metrics, list(stream.trend)) == (1, {"loss": 2.0}, [2.0])


def test_a_huge_file_is_jumped_over_but_its_start_and_end_count(path: Path) -> None:
    total = 40_000
    begin = line("start", time=0.0, epochs=4, steps=total)
    body = (
        line(
            "metrics", time=float(i), epoch=1 + 4 * i // total, step=i, values={"loss": 1 / (i + 1)}
        )
        for i in range(total)
    )
    path.write_bytes(begin + b"".join(body))
    assert path.stat().st_size > 3 * (HEAD_BYTES + TAIL_BYTES)
    stream = EventStream(path)
    assert stream.poll()
    assert (stream.steps, stream.epochs, stream.step, stream.epoch) == (total, 4, total - 1, 4)
    assert stream.pace() == pytest.approx(1.0)
    append(path, line("metrics", time=float(total), epoch=4, step=total, values={"loss": 0.0}))
    assert stream.poll() and stream.step == total


def write_epochs(
    path: Path, first_pace: float, pace: float, epochs: int, each: int = 10, total: int = 5
) -> float:
    now = 1000.0
    append(path, line("start", time=now, epochs=total, steps=total * each))
    for epoch in range(1, epochs + 1):
        for i in range(each):
            now += first_pace if epoch == 1 else pace
            append(
                path,
                line(
                    "metrics",
                    time=now,
                    epoch=epoch,
                    step=(epoch - 1) * each + i + 1,
                    values={"loss": 1},
                ),
            )
    return now


def test_the_first_epoch_is_no_measure_once_there_are_others(path: Path) -> None:
    now = write_epochs(path, first_pace=100.0, pace=2.0, epochs=3)
    stream = EventStream(path)
    stream.poll()
    assert stream.pace() == pytest.approx(2.0)
    progress = stream.progress(now)
    assert progress.fraction == pytest.approx(0.6)
    assert progress.eta_s == pytest.approx(20 * 2.0)
    assert stream.progress(now + 3).eta_s == pytest.approx(37.0)
    # Steps of 2 s, and none for 500: what it does is not known, nor how long; but it is not over.
    assert stream.progress(now + 500).eta_s is None


def test_the_first_epoch_of_several_tells_the_pace_and_no_time_left(path: Path) -> None:
    now = write_epochs(path, first_pace=3.0, pace=0, epochs=1)
    stream = EventStream(path)
    stream.poll()
    assert (stream.progress(now).eta_s, stream.pace()) == (None, pytest.approx(3.0))


def test_without_totals_there_is_no_fraction_and_no_eta(path: Path) -> None:
    path.write_bytes(b"".join(line("metrics", time=float(i), step=i, epoch=2) for i in range(5)))
    stream = EventStream(path)
    assert stream.progress(10.0).fraction is None
    stream.poll()
    progress = stream.progress(10.0)
    assert (progress.step, progress.fraction, progress.eta_s) == (4, None, None)


def test_a_resumed_run_counts_its_pace_from_its_own_start(path: Path) -> None:
    write_epochs(path, first_pace=1.0, pace=1.0, epochs=2)
    append(path, line("start", time=9000.0, epochs=5, steps=50))
    for i in range(3):
        append(
            path, line("metrics", time=9000.0 + 4 * i, epoch=3, step=21 + i, values={"loss": 0.5})
        )
    stream = EventStream(path)
    stream.poll()
    assert stream.pace() == pytest.approx(4.0)
    assert list(stream.trend) == [0.5] * 3


def test_summary_newest_image_and_epoch_values_are_kept(path: Path) -> None:
    path.write_bytes(
        line("epoch", epoch=1, values={"held_out_psnr": 20.0})
        + line("image", path="a.png")
        + line("image", path="b.png")
        + line("summary", values={"held_out_psnr": 21.0, "loss": None})
    )
    stream = EventStream(path)
    stream.poll()
    assert stream.images == ["b.png"]
    assert stream.summary == {"held_out_psnr": 21.0, "loss": None}
    assert repr(stream.metrics) == repr({"held_out_psnr": 21.0, "loss": math.nan})
