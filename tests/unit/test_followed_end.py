"""A long log that its watcher has read is not read again at its end, and says the same."""

import math
from pathlib import Path

import pytest

from runners.guard.watcher import WatchedRun
from runners.host import pressure
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.watch.metrics import final_maker, output_source
from runners.watch.metrics.final import read_final
from runners.watch.metrics.final_maker import keep_final
from runners.watch.metrics.live import LiveReport
from tests.support import make_run
from tests.unit.test_metrics_tensorboard import write
from tui.views.runs.row_reading import row_of_ended

LINES = 4000


def _line(step: int) -> str:
    loss = "nan" if step == 40 else f"{abs(step - 1000) / 1000 + 0.01:.4f}"
    return f"step {step}/{LINES} | loss: {loss} | val_acc: {step / LINES:.3f}\n"


def grown(folder: Path, first: int, last: int) -> None:
    with (folder / "output.log").open("a") as output:
        output.writelines(_line(step) for step in range(first, last))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that has ended; its watcher last looked before its last lines."""
    live = make_run(State.RUNNING, directory=str(tmp_path))
    watcher = LiveReport(live)
    for first in range(1, LINES, 500):
        grown(tmp_path, first, first + 500)
        watcher.poll(live, follow=True)
        if first < 3000:
            watcher.save()
    # A bar's last redraw, which never gets its end.
    with (tmp_path / "output.log").open("a") as output:
        output.write(f"step {LINES}/{LINES} | loss: 3.5\rstep {LINES}/{LINES} | loss: 3.25")
    return make_run(State.DONE, directory=str(tmp_path), ended=2000.0)


def test_the_report_of_a_followed_run_is_that_of_its_whole_output(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Path(run.directory) / "tb", {"grad": [2.0, 0.5, 1.0]}, 1)
    whole = keep_final(run)

    def read_whole(run: Run, gently: bool) -> None:
        raise AssertionError("read all over again")

    monkeypatch.setattr(final_maker, "_LONG", 1)
    monkeypatch.setattr(final_maker, "_read_whole", read_whole)
    found = keep_final(run)
    assert found.metrics == whole.metrics
    assert (found.progress, found.headline) == (whole.progress, whole.headline)
    assert (found.readers, found.is_whole) == (whole.readers, True)
    assert found.trend[-1] == pytest.approx(whole.trend[-1], abs=0.1)
    assert max(found.trend) == pytest.approx(3.0, abs=0.3) and min(found.trend) < 0.2
    assert all(map(math.isfinite, found.trend))


def test_last_and_best_are_in_its_row_before_the_report_is_made(run: Run) -> None:
    assert read_final(run) is None
    row = row_of_ended(run, 0)
    assert (row.last, row.best, row.is_final) == (3.25, 0.01, False)


def test_what_its_watcher_missed_is_read_in_full(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_maker, "_LONG", 1)
    again = make_run(
        State.DONE,
        directory=run.directory,
        record=run.record and type(run.record)(State.DONE, started=1000.0, ended=2000.0, attempt=2),
    )
    assert keep_final(again).metrics["loss"].best == 0.01


def test_an_ended_run_of_which_much_is_unread_has_its_last_values_and_no_best_yet(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No time to read: the end of what its watcher had not come to is read all the same.
    monkeypatch.setattr(output_source, "_FOLLOW_S", -1.0)
    with (Path(run.directory) / "output.log").open("a") as output:
        output.writelines("\n" + _line(LINES + step) for step in range(60_000))
    row = row_of_ended(run, 0)
    assert row.last == pytest.approx((LINES + 59_999 - 1000) / 1000 + 0.01, abs=1e-4)
    assert row.best is None


def test_a_watcher_far_behind_leaves_out_nothing_and_the_end_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a program that prints faster than anybody reads, the best value is known in the end."""
    monkeypatch.setattr(output_source, "_FOLLOW_S", -1.0)
    live, output = make_run(State.RUNNING, directory=str(tmp_path)), tmp_path / "output.log"
    watcher = LiveReport(live)
    grown(tmp_path, 900, 1000)
    watcher.poll(live, follow=True)
    # A hole, which nobody has to read, in the place of many lines.
    with output.open("r+b") as log:
        log.truncate(100 << 20)
    with output.open("ab") as log:
        log.write(b"\n")
    grown(tmp_path, 1000, 1100)
    watcher.poll(live, follow=True)
    watcher.save()
    monkeypatch.setattr(final_maker, "_LONG", 1)
    monkeypatch.setattr(final_maker, "_read_whole", lambda *_: pytest.fail("read all again"))
    found = keep_final(make_run(State.DONE, directory=str(tmp_path), ended=2000.0))
    assert (found.metrics["loss"].last, found.metrics["loss"].best) == (0.109, 0.01)


def test_a_watcher_that_is_behind_looks_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_source, "_FOLLOW_S", -1.0)
    state = StateDirectory(tmp_path / "state").create()
    folder = state.run("20261120-101500-demo-7f3a").path
    folder.mkdir(parents=True)
    watched = WatchedRun(state, make_run(State.RUNNING, directory=str(folder)))
    assert watched.next_in_s == watched.pause_s
    grown(folder, 1, 60_000)
    watched.take_end(make_run(State.RUNNING, directory=str(folder)), False)
    assert watched.next_in_s < watched.pause_s


def test_a_long_log_that_nobody_followed_says_what_a_short_one_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(tmp_path, 1, LINES + 1)
    ended = make_run(State.DONE, directory=str(tmp_path), ended=2000.0)
    whole = keep_final(ended)
    monkeypatch.setattr(final_maker, "_LONG", 1)
    monkeypatch.setattr(final_maker, "_read_whole", lambda *_: pytest.fail("as series"))
    found = keep_final(ended)
    assert (found.metrics, found.progress) == (whole.metrics, whole.progress)
    assert found.metrics["loss"].best == 0.01


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_helper_reads_without_rest_where_no_process_waits_for_a_processor(
    is_busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(final_maker.time, "sleep", rests.append)
    monkeypatch.setattr(pressure, "_PRESSURE", tmp_path / "pressure")
    percent = 40 if is_busy else 3
    (tmp_path / "pressure").write_text(f"some avg10={percent}.00 avg60=80.0\nfull avg10=0.00\n")
    monkeypatch.setattr(output_source, "_FOLLOW_S", -1.0)
    monkeypatch.setattr(final_maker, "_LONG", 1)
    grown(tmp_path, 1, 30_000)
    keep_final(make_run(State.DONE, directory=str(tmp_path), ended=2000.0), gently=True)
    assert bool(rests) == is_busy
