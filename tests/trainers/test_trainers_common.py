"""What the trainers share."""

import json
import math
import os
import pickle
import random
import signal
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from trainers.common import checkpoint as checkpoints  # noqa: E402
from trainers.common.ranks import epoch_batches  # noqa: E402
from trainers.common.report import EventLog, run_directory  # noqa: E402
from trainers.common.settings_parser import SettingsError  # noqa: E402
from trainers.common.stopping import StopRequest  # noqa: E402

pytestmark = pytest.mark.trainers


def test_an_event_never_holds_what_json_does_not_know(tmp_path: Path) -> None:
    events = EventLog(tmp_path)
    events.emit("metrics", values={"loss": math.nan, "parts": [math.inf, 1.5]}, path=tmp_path)
    event = json.loads((tmp_path / "events.jsonl").read_text())
    assert event["values"] == {"loss": None, "parts": [None, 1.5]}
    assert event["path"] == str(tmp_path)


def test_an_empty_run_directory_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_RUN_DIR", "")
    assert run_directory() is None


def test_a_stop_file_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    stop = StopRequest()
    assert not stop.agreed(torch.device("cpu"))
    (tmp_path / "stop.json").touch()
    assert stop.agreed(torch.device("cpu"))


def test_one_interrupt_asks_and_a_second_one_insists(
    monkeypatch: pytest.MonkeyPatch, keep_signals: None
) -> None:
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    stop = StopRequest()
    stop.listen()
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.asked()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_failed_save_leaves_the_earlier_checkpoint_and_no_scraps(tmp_path: Path) -> None:
    path = tmp_path / "epoch_0001.pt"
    size = checkpoints.save_checkpoint(path, {"value": torch.ones(3)})
    assert size == path.stat().st_size
    with pytest.raises((AttributeError, pickle.PicklingError)):
        checkpoints.save_checkpoint(path, {"value": lambda: None})
    assert list(tmp_path.iterdir()) == [path]
    assert torch.equal(checkpoints.load_checkpoint(path)["value"], torch.ones(3))


def test_a_broken_checkpoint_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "epoch_0001.pt"
    path.write_bytes(b"half a checkpoint")
    with pytest.raises(SettingsError, match=r"epoch_0001\.pt cannot be read"):
        checkpoints.load_checkpoint(path)


def test_numbered_checkpoints_are_ordered_by_when_they_were_written(tmp_path: Path) -> None:
    for age, name in enumerate(
        ("best.pt", "epoch_0001.pt", "epoch_0002_step_000003.pt", "epoch_0009.pt")
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (2e9 - age, 2e9 - age))
    found = [path.name for path in checkpoints.numbered_checkpoints(tmp_path)]
    assert found == ["epoch_0009.pt", "epoch_0002_step_000003.pt", "epoch_0001.pt"]
    assert checkpoints.numbered_checkpoints(tmp_path / "nowhere") == []


def test_generators_go_on_where_they_were(tmp_path: Path) -> None:
    checkpoints.save_checkpoint(tmp_path / "state.pt", checkpoints.random_state())
    first = (random.random(), np.random.rand(), torch.rand(1).item())
    checkpoints.restore_random_state(checkpoints.load_checkpoint(tmp_path / "state.pt"))
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == first


@pytest.mark.parametrize(
    ("count", "batch_size", "world"), [(40, 2, 1), (41, 4, 3), (2, 8, 4), (7, 3, 2)]
)
def test_ranks_share_an_epoch_evenly_and_miss_nothing(
    count: int, batch_size: int, world: int
) -> None:
    ranks = [epoch_batches(count, batch_size, 5, 1, rank, world) for rank in range(world)]
    assert len({tuple(map(len, batches)) for batches in ranks}) == 1
    drawn = [index for batches in ranks for batch in batches for index in batch]
    assert set(drawn) == set(range(count))
    assert len(drawn) < count + world
    assert ranks[0] == epoch_batches(count, batch_size, 5, 1, 0, world)
    assert ranks[0] != epoch_batches(count, batch_size, 5, 2, 0, world) or count < 8
