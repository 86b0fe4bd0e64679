"""How far a live run is said to be: never at its end, as long as it trains."""

from pathlib import Path

import msgspec
import pytest

from runners.model.states import State
from runners.places.ssh.thinning import thin_row
from runners.watch.metrics.live import LiveReport
from tests.support import make_run
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_columns import COLUMNS, TableContext
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run


def test_no_100_percent_and_no_eta_of_0_while_it_trains(tmp_path: Path) -> None:
    live = make_run(State.RUNNING, directory=str(tmp_path))
    report = LiveReport(live)
    for step in range(1990, 2001):
        with (tmp_path / "output.log").open("a") as output:
            output.write(f"step {step}/2000 | loss: 0.25 | eta: 0:00:00\n")
        view = view_run(live, report)
        assert view.progress.step == step
        assert COLUMNS["progress"].text(row_of_view(view), TableContext(0.0), 4) == "99%"
        said = to_json(view)["progress"]
        assert said["fraction"] < 1 and said["eta_s"] is None
    ended = view_run(make_run(State.DONE, directory=str(tmp_path), ended=2000.0))
    assert COLUMNS["progress"].text(row_of_view(ended), TableContext(0.0), 4) == "100%"


@pytest.mark.parametrize("left", [1.0, 4.0, 4.9])
def test_an_eta_of_seconds_is_not_rounded_to_0(left: float, tmp_path: Path) -> None:
    view = view_run(make_run(State.RUNNING, directory=str(tmp_path)))
    row = msgspec.structs.replace(row_of_view(view), eta_s=left)
    for shown in (row, thin_row(row)):
        assert shown.eta_s and COLUMNS["eta"].text(shown, TableContext(0.0), 6) == "<5s"
