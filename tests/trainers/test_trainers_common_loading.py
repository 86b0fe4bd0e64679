"""Workers that live from epoch to epoch, and what they keep for each other."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402

from tests.warm import TORCH  # noqa: E402
from trainers.common.kept_items import KeptItems  # noqa: E402
from trainers.common.loading import EpochLoader, of_epoch  # noqa: E402

pytestmark = pytest.mark.trainers
CPU = torch.device("cpu")


class Squares(Dataset[dict[str, Any]]):
    """Item i is i², by whom it was loaded, and for which epoch; what is read is written down."""

    def __init__(self, told: Path, room: int) -> None:
        self.told = told
        self.kept = KeptItems(8, room, {"square": torch.zeros(3, dtype=torch.float64)})

    def __getitem__(self, place: tuple[int, int]) -> dict[str, Any]:
        epoch, index = place
        item = self.kept.find(index)
        if item is None:
            with self.told.open("a") as file:
                file.write(f"{index}\n")
            item = {"square": torch.full((3,), float(index**2), dtype=torch.float64)}
            self.kept.keep(index, item)
        return {**item, "worker": os.getpid(), "epoch": epoch}


def epoch_of(
    loader: EpochLoader[Squares], epoch: int, batches: list[list[int]]
) -> tuple[list[Tensor], list[int]]:
    """The squares of an epoch's batches, and who loaded each."""
    loaded = list(loader.batches(of_epoch(epoch, batches)))
    assert all(batch["epoch"].tolist() == [epoch] * len(batch["epoch"]) for batch in loaded)
    return [batch["square"][:, 0] for batch in loaded], [int(b["worker"][0]) for b in loaded]


def test_workers_live_from_epoch_to_epoch_and_read_every_item_once(tmp_path: Path) -> None:
    told, batches = tmp_path / "told", [[0, 1], [2, 3], [4, 5], [6, 7]]
    loader = EpochLoader(Squares(told, 1000), CPU, 2)
    squares, first = epoch_of(loader, 0, batches)
    assert torch.cat(squares).tolist() == [index**2 for index in range(8)]
    # The other way round, so that each reads what the other one has read.
    squares, second = epoch_of(loader, 1, [*batches[1:], batches[0]])
    assert torch.cat(squares).tolist() == [index**2 for index in (2, 3, 4, 5, 6, 7, 0, 1)]
    assert len(set(first)) == 2 and set(second) == set(first) and os.getpid() not in first
    assert sorted(told.read_text().split()) == [str(index) for index in range(8)]
    loader.begin_anew()
    _, third = epoch_of(loader, 2, batches)
    assert not set(third) & set(first)


def test_an_epoch_that_was_left_early_does_not_reach_into_the_next_one(tmp_path: Path) -> None:
    loader = EpochLoader(Squares(tmp_path / "told", 1000), CPU, 1)
    next(iter(loader.batches(of_epoch(0, [[index] for index in range(8)]))))
    squares, _ = epoch_of(loader, 1, [[5], [6, 7]])
    assert [batch.tolist() for batch in squares] == [[25.0], [36.0, 49.0]]


FAILING = """
import sys
sys.path.insert(0, {root!r})
import torch
from torch.utils.data import TensorDataset
from trainers.common.loading import EpochLoader
loader = EpochLoader(TensorDataset(torch.arange(40)), torch.device("cpu"), 1)
loaded = iter(loader.batches([[index] for index in range(40)]))
next(loaded)
raise RuntimeError("planted")
"""


def test_a_program_that_fails_ends_though_its_workers_ignore_the_signals_to_end(
    tmp_path: Path,
) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING.format(root=str(Path(__file__).resolve().parents[2])))
    ended = TORCH.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1 and ended.stderr.endswith("RuntimeError: planted\n")


@pytest.mark.parametrize(("room", "fitting"), [(0, 0), (24, 1), (80, 3), (1000, 5)])
def test_as_much_is_kept_as_there_is_room_for(room: int, fitting: int) -> None:
    like = {"a": torch.ones(4), "b": torch.tensor(3)}
    kept = KeptItems(5, room, like)
    assert kept.bytes == fitting * 24
    for index in range(5):
        assert kept.find(index) is None
        kept.keep(index, {"a": torch.full((4,), index), "b": torch.tensor(index)})
    # Another type, another shape, another part: none of them is what the others are.
    kept = KeptItems(5, room, like)
    kept.keep(0, {"a": torch.ones(4).double(), "b": torch.tensor(3)})
    kept.keep(0, {"a": torch.ones(5), "b": torch.tensor(3)})
    kept.keep(0, {"a": torch.ones(4)})
    assert kept.find(0) is None
    for index in range(5):
        kept.keep(index, {"a": torch.full((4,), float(index)), "b": torch.tensor(index)})
        found = kept.find(index)
        assert (found is not None) == (index < fitting)
        assert found is None or (found["a"].tolist(), int(found["b"])) == ([index] * 4, index)
