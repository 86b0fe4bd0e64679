"""A run that has just ended: its values are there before the report of its whole output is."""

from pathlib import Path

from runners.model.run import Run
from runners.model.states import State
from runners.watch.metrics.final import read_final
from runners.watch.metrics.final_maker import keep_final
from runners.watch.metrics.live import LiveReport
from tests.support import make_run
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run

LINES = 40_000
BEST_AT = 700


def lines(first: int, last: int) -> str:
    return "".join(
        f"step {i}/{LINES} | loss: {abs(i - BEST_AT) / 1000 + 0.25:.4f}\n"
        for i in range(first, last + 1)
    )


def run_in(folder: Path, state: State) -> Run:
    ended = 2000.0 if state is State.DONE else None
    return make_run(state, directory=str(folder), ended=ended)


def test_what_followed_a_run_and_the_end_of_its_output_tell_last_and_best(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_text(lines(1, LINES - 500))
    live = run_in(tmp_path, State.RUNNING)
    watcher = LiveReport(live)
    watcher.poll(live, follow=True)
    watcher.save()
    with output.open("a") as file:
        file.write(lines(LINES - 499, LINES))
    ended = run_in(tmp_path, State.DONE)
    assert read_final(ended) is None and output.stat().st_size > 1_000_000
    for row in (row_of_ended(ended, 0), row_of_view(view_run(ended))):
        assert (row.step, row.last, row.best, row.is_final) == (LINES, 39.55, 0.25, False)
    said = to_json(view_run(ended))
    best = {"value": 0.25, "step": BEST_AT, "axis": "step", "source": "output"}
    assert said["best"]["loss"] == best
    keep_final(ended)
    assert to_json(view_run(ended))["best"] == said["best"] and row_of_ended(ended, 0).is_final


def test_of_a_long_output_that_nobody_followed_the_last_values_are_known(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text(lines(1, LINES))
    row = row_of_ended(run_in(tmp_path, State.DONE), 0)
    assert (row.step, row.last, row.best) == (LINES, 39.55, None)
