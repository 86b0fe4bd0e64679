"""The best values of a live run: of all that it wrote, or not told at all."""

import json
from pathlib import Path

from runners.model.states import State
from runners.watch.metrics.event_reader import HEAD_BYTES, TAIL_BYTES
from runners.watch.metrics.live import LiveReport
from tests.support import make_run


def report_of(folder: Path, losses: list[float], padding: str = "") -> dict[str, object]:
    with (folder / "events.jsonl").open("w") as out:
        for step, loss in enumerate(losses):
            values = {"loss": loss, "val/psnr": 20 + step, "lr": 0.1}
            event = {"time": step, "type": "metrics", "step": step, "values": values}
            out.write(json.dumps({**event, "phase": padding}) + "\n")
    run = make_run(State.RUNNING, directory=str(folder))
    report = LiveReport(run)
    report.poll(run)
    return dict(report.best(run))


def test_less_or_more_is_better_as_the_name_says(tmp_path: Path) -> None:
    best = report_of(tmp_path, [0.9, 0.2, 0.5])
    assert best == {"loss": (0.2, 1), "val/psnr": (22.0, 2)}


def test_what_was_not_read_in_full_has_no_best(tmp_path: Path) -> None:
    count = (HEAD_BYTES + TAIL_BYTES) // 1000 + 50
    assert report_of(tmp_path, [1.0] * count, padding="x" * 1000) == {}
