"""Our trainers' own reporting: each value once, whatever else keeps it too."""

from pathlib import Path

import pytest

pytest.importorskip("tensorboardX")
torch = pytest.importorskip("torch")

from tests.trainers.said_once import series_of, told_twice  # noqa: E402
from trainers.common.meters import ThroughputMeter  # noqa: E402
from trainers.common.ranks import Ranks  # noqa: E402
from trainers.common.reporter import Reporter  # noqa: E402
from trainers.voxelization.reporting import VoxelReporter  # noqa: E402

pytestmark = pytest.mark.trainers


class Place:
    """Where a training stands that goes through two epochs of three steps."""

    def __init__(self, it: int) -> None:
        self.epoch, self.it = (it - 1) // 3, it


@pytest.mark.parametrize("kind", [Reporter, VoxelReporter])
def test_tensorboard_and_output_say_nothing_that_the_events_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, kind: type[Reporter]
) -> None:
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    ranks = Ranks(0, 1, torch.device("cpu"))
    reporter = kind(ranks, tmp_path, "toy", {})
    reporter.start(found={}, batch="1", rate="1", epochs=2, steps=6)
    if isinstance(reporter, VoxelReporter):
        reporter.open_boards(True, 0)
    meter = ThroughputMeter(ranks.device, ranks.world)
    for it in range(1, 7):
        place = Place(it)
        meter.count(it)
        values = {"loss": 1 / it, "learning_rate": 0.1 / it, **meter.values()}
        if isinstance(reporter, VoxelReporter):
            reporter.train_step(place, values, always=True)
            reporter.step_line(place, 1 / it, 0.1)
        else:
            reporter.step(place.epoch + 1, it, values, always=True)
            reporter.write(f"epoch {place.epoch + 1}/2  step {it}/6  loss {1 / it:.4f}")
        if it % 3 == 0:
            judged = {"loss": 2 / it, **meter.values(), "val/psr_l2": 0.7 / it}
            reporter.epoch(place.epoch + 1, it, 1.0, judged)
    reporter.finish({"loss": 2 / 6, "val/psr_l2": 0.7 / 6})
    found = series_of(tmp_path, capsys.readouterr().out)
    assert told_twice(found) == []
    assert {one.source for one in found.values()} == {"events"}
    assert "tensorboard" in found["loss"].sources
    assert {"loss", "learning_rate", "epoch/loss", "val/psr_l2"} <= set(found)
