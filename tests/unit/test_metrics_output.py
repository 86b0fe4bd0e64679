"""Output as it grows, ends, starts anew, is cut or runs wild; and what a line in a list makes of
it.
"""

import os
import re
from pathlib import Path

import pytest

from runners.host.tail import Follower
from runners.model.run import Run
from runners.model.spec import MetricRule
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.watch.metrics.final_maker import make_final
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.output_source import OutputEvent, OutputSource
from runners.watch.metrics.run_metrics import RunMetrics
from tests.support import make_run
from tui.cli import metrics as watching


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def line(step: int, loss: float) -> str:
    return f"step {step}/100000000 | loss: {loss}\n"


def run_in(folder: Path, state: State = State.RUNNING) -> Run:
    return make_run(state, directory=str(folder), ended=2000.0 if state is State.DONE else None)


def everything(run: Run) -> RunMetrics:
    metrics = RunMetrics(run)
    while metrics.poll():
        pass
    return metrics


def values(metrics: RunMetrics, name: str) -> list[tuple[float, float]]:
    series = metrics.series()[name]
    return list(zip(series.steps, series.values, strict=True))


def test_a_follower_reads_whole_lines_and_every_redraw(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    follower = Follower(path)
    assert follower.poll(1000).lines == []
    append(path, "a\rb\r\nc")
    assert follower.poll(1000).lines == [b"a", b"b"]
    append(path, "d\n")
    assert follower.poll(1000).lines == [b"cd"] and follower.poll(1000).lines == []


def test_a_follower_never_reads_more_than_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    append(path, "head\n" + "x" * 99 + "\n" + ("y" * 99 + "\n") * 100_000 + "tail\n")
    follower = Follower(path)
    news = follower.poll(100_000, jump=True)
    assert news.lines[0] == b"head" and news.lines[-1] == b"tail" and not news.more
    assert (
        sum(map(len, news.lines)) < 200_000
        and news.skipped == path.stat().st_size - 100_000 - 65_536
    )
    assert set(news.lines[1:-1]) == {b"x" * 99, b"y" * 99}, "no half line where the jump lands"
    slow = Follower(path)
    count = 0
    while (news := slow.poll(1_000_000)).lines:
        count += len(news.lines)
    assert count == 100_003 and not news.skipped


@pytest.mark.parametrize("how", ["shorter", "longer", "another file"])
def test_a_follower_begins_anew_with_a_file_that_was_replaced(tmp_path: Path, how: str) -> None:
    path = tmp_path / "output.log"
    append(path, "old 1\nold 2\n")
    follower = Follower(path)
    follower.poll(1000)
    if how == "another file":
        (tmp_path / "new").write_text("new 1\nnew 2\nnew 3\n")
        (tmp_path / "new").replace(path)
    else:
        path.write_text("new 1\n" if how == "shorter" else "new 1\nnew 2\nnew 3\n")
    news = follower.poll(1000)
    assert news.restarted and news.lines[0] == b"new 1"


def test_output_that_output_limit_wrote_anew_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    append(path, "".join(line(i, i) for i in range(1, 2000)))
    follower = Follower(path)
    follower.poll(1 << 20)
    whole = path.read_bytes()
    (tmp_path / "new").write_bytes(whole[:500] + "\n… cut …\n".encode() + whole[-5000:])
    (tmp_path / "new").replace(path)
    news = follower.poll(1 << 20)
    assert not news.restarted and not news.lines
    append(path, line(2000, 1))
    assert follower.poll(1 << 20).lines == [line(2000, 1).strip().encode()]


def test_a_hole_of_gigabytes_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    append(path, line(1, 1.0))
    with path.open("r+b") as file:
        file.seek(3 << 30)
        file.write(b"\n" + line(9, 0.5).encode())
    metrics = everything(run_in(tmp_path, State.DONE))
    assert values(metrics, "loss") == [(1, 1.0), (9, 0.5)]


def test_attempts_are_read_in_order_and_the_later_one_wins(tmp_path: Path) -> None:
    append(tmp_path / "output.1.log", "".join(line(i, 1.0) for i in range(1, 8)))
    append(tmp_path / "output.2.log", "".join(line(i, 2.0) for i in range(5, 11)))
    append(tmp_path / "output.10.log", "".join(line(i, 10.0) for i in range(9, 12)))
    append(tmp_path / "output.log", line(11, 0.25) + "step 12/100 | loss: 0.1")
    metrics = everything(run_in(tmp_path, State.DONE))
    expected = (
        [(i, 1.0) for i in range(1, 5)] + [(i, 2.0) for i in range(5, 9)] + [(9, 10.0), (10, 10.0)]
    )
    assert values(metrics, "loss") == [*expected, (11, 0.25)], "the last line was cut off"
    assert metrics.readers == (("pairs",), True) and "guessed" in metrics.notes[0]


def test_the_last_line_of_a_live_run_waits_until_it_is_whole(tmp_path: Path) -> None:
    append(tmp_path / "output.log", line(1, 0.5) + "step 2/100 | loss: 0.1")
    metrics = everything(run_in(tmp_path))
    assert values(metrics, "loss") == [(1, 0.5)]
    append(tmp_path / "output.log", "25\n")
    metrics.poll()
    assert values(metrics, "loss") == [(1, 0.5), (2, 0.125)]


def test_a_restart_while_looking_reads_the_end_of_the_old_attempt_first(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    append(output, line(1, 1.0))
    source = OutputSource(tmp_path, MetricRule(), live=True)
    assert [told.step for told in source.poll() if not isinstance(told, OutputEvent)] == [1]
    append(output, line(2, 2.0))
    output.rename(tmp_path / "output.1.log")
    append(output, line(2, 3.0))
    told = [one if isinstance(one, OutputEvent) else one.values["loss"] for one in source.poll()]
    assert told == [2.0, OutputEvent.ATTEMPT, 3.0]


def test_a_list_reads_only_the_end_of_a_storm_and_says_so(tmp_path: Path) -> None:
    append(tmp_path / "output.log", "".join(line(i, 1.0) for i in range(1, 50_000)))
    report = LiveReport(run_in(tmp_path))
    report.poll(run_in(tmp_path))
    assert report.skipped > 1_000_000
    append(tmp_path / "output.log", "".join(line(i, 1.0) for i in range(50_000, 50_010)))
    report.poll(run_in(tmp_path))
    assert (
        report.course.step == 50_009
        and report.course.metrics == {"loss": 1.0}
        and report.readers == ("pairs",)
    )


def test_an_ended_run_s_output_is_opened_only_when_asked(tmp_path: Path) -> None:
    append(tmp_path / "output.log", line(5, 1.0))
    os.utime(tmp_path / "output.log", (1, 1))
    before = (tmp_path / "output.log").stat().st_atime_ns
    ended = run_in(tmp_path, State.DONE)
    live = LiveReport(run_in(tmp_path))
    live.poll(run_in(tmp_path), brief=True)
    assert live.course.step is None and (tmp_path / "output.log").stat().st_atime_ns == before
    brief, thorough = LiveReport(ended), LiveReport(ended)
    brief.poll(ended)
    assert brief.course.step is None and (tmp_path / "output.log").stat().st_atime_ns == before
    thorough.poll(ended, thorough=True)
    assert thorough.course.step == 5


def test_a_long_log_read_in_pieces_gets_no_times_until_all_of_it_was_read(tmp_path: Path) -> None:
    append(tmp_path / "output.log", "".join(line(i, 1.0) for i in range(1, 5000)))
    metrics = RunMetrics(run_in(tmp_path))
    pieces = 1
    while metrics.poll(limit=16 * 1024):
        pieces += 1
    loss = metrics.series()["loss"]
    assert pieces > 5 and len(loss) == 4999 and all(time != time for time in loss.times)
    append(tmp_path / "output.log", line(5000, 1.0))
    metrics.poll()
    assert loss.times[-1] > 1e9


def test_events_count_more_than_output(tmp_path: Path) -> None:
    append(tmp_path / "output.log", line(5, 1.0))
    report = LiveReport(run_in(tmp_path))
    report.poll(run_in(tmp_path))
    assert report.course.step == 5
    append(
        tmp_path / "events.jsonl",
        '{"time": 1, "type": "metrics", "step": 7, "values": {"loss": 0.5}}\n',
    )
    report.poll(run_in(tmp_path))
    assert report.course.step == 7 and not report.readers
    assert list(everything(run_in(tmp_path)).series()) == ["loss"]
    assert values(everything(run_in(tmp_path)), "loss") == [(7, 0.5)]


def test_events_of_a_resumed_run_and_a_loss_that_went_away(tmp_path: Path) -> None:
    def event(step: int, loss: str) -> str:
        return (
            f'{{"time": {step}, "type": "metrics", "epoch": 1, "step": {step}, "values": '
            f'{{"loss": {loss}}}}}\n'
        )

    start = '{"time": 1, "type": "start", "epochs": 1, "steps": 9, "settings": {"lr": 0.1}}\n'
    text = (
        start
        + "".join(event(i, "1") for i in range(1, 6))
        + start
        + event(3, "null")
        + event(4, "0.5")
        + '{"time'
    )
    append(tmp_path / "events.jsonl", text)
    metrics = everything(run_in(tmp_path, State.FAILED))
    loss = metrics.series()["loss"]
    assert (
        list(loss.steps) == [1, 2, 3, 4] and loss.values[2] != loss.values[2] and loss.last == 0.5
    )
    assert list(loss.times) == [1, 2, 3, 4] and metrics.settings == {"lr": 0.1}


def test_the_pace_of_output_without_times_comes_from_when_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("runners.watch.metrics.output_source.time.time", lambda: clock[0])
    monkeypatch.setattr("runners.host.clock.time.clock_gettime", lambda _: clock[0])
    run = run_in(tmp_path)
    report = LiveReport(run)
    append(tmp_path / "output.log", "step 10/30 | loss: 1\n")
    report.poll(run)
    for step in (11, 12, 13):
        clock[0] += 3.0
        append(tmp_path / "output.log", f"step {step}/30 | loss: 1\n")
        report.poll(run)
    assert report.course.progress(clock[0]).eta_s == pytest.approx(3.0 * 17)


def test_however_many_lines_come_the_newest_are_read(tmp_path: Path) -> None:
    append(tmp_path / "output.log", line(1, 1.0))
    report = LiveReport(run_in(tmp_path))
    report.poll(run_in(tmp_path))
    append(tmp_path / "output.log", "".join(line(i, 1 / i) for i in range(2, 2000)))
    report.poll(run_in(tmp_path))
    assert report.course.step == 1999 and report.skipped > 10_000


def test_an_attempt_that_was_half_read_when_the_next_began_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    """Its file has another name then: of a long one all but the next piece was left out, unsaid."""
    output = tmp_path / "output.log"
    append(output, "".join(line(step, 1.0) for step in range(1, 2001)))
    source = OutputSource(tmp_path, MetricRule(), live=False)
    found = list(source.poll(4096))
    output.rename(tmp_path / "output.1.log")
    append(output, line(5, 0.5))
    more = True
    while more:
        found += source.poll(4096)
        more = source.more
    attempt = found.index(OutputEvent.ATTEMPT)
    steps = [item.step for item in found if not isinstance(item, OutputEvent)]
    assert attempt == 2000 and steps == [*range(1, 2001), 5]


def test_what_comes_at_the_very_end_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "output.log"
    output.write_text(line(1, 0.5))
    states = iter((State.RUNNING, State.DONE))
    monkeypatch.setattr(watching, "read_run", lambda *_: run_in(tmp_path, next(states, State.DONE)))
    much = "".join(f"{line(step, 0.25)}{'a line without a number' * 20}\n" for step in range(2, 10))
    monkeypatch.setattr(watching.time, "sleep", lambda _: append(output, much * 3000))
    monkeypatch.setattr(watching, "print_table", lambda _, rows: print("at", rows[0][2]))
    state = StateDirectory(tmp_path)
    watching._watch(state, RunMetrics(run_in(tmp_path)), re.compile("loss"), None)
    # The last of more megabytes than are read at one look.
    assert output.stat().st_size > 8 << 20
    assert capsys.readouterr().out.split()[-1] == "9"


def test_the_report_of_a_long_log_places_values_as_that_of_a_short_one(tmp_path: Path) -> None:
    lines = [f"Epoch {epoch}/3: loss {1 / epoch:.4f}\n" for epoch in (1, 2, 3)]
    (tmp_path / "output.log").write_text(("x" * 99 + "\n").join(lines))
    short = make_final(run_in(tmp_path, State.DONE)).metrics["loss"]
    (tmp_path / "output.log").write_text(("y\n" * (3 << 20)).join(lines))
    long = make_final(run_in(tmp_path, State.DONE)).metrics["loss"]
    assert (long.step, long.axis, long.best_step) == (short.step, short.axis, short.best_step)
