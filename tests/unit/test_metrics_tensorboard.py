"""TensorBoard's event files, as a real writer writes them, and torn, damaged or foreign ones."""

import os
import struct
from pathlib import Path

import pytest

from runners.model.states import State
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.tensorboard import BoardSource, EventFile, fields
from tests.support import make_run

writer = pytest.importorskip("tensorboardX")


def write(
    folder: Path, scalars: dict[str, list[float]], first: int = 0, texts: bool = True
) -> Path:
    """An event file with one value a step, among texts and histograms."""
    board = writer.SummaryWriter(str(folder))
    for name, values in scalars.items():
        for i, value in enumerate(values):
            board.add_scalar(name, value, first + i, walltime=1000.0 + i)
    if texts:
        board.add_text("note", "a text is a tensor of a string", 1)
        board.add_histogram("weights", next(iter(scalars.values())) * 3, 1)
    board.close()
    return next(path for path in folder.iterdir() if "tfevents" in path.name)


def steps_and_values(board: BoardSource, name: str) -> list[tuple[float, float]]:
    series = board.collection.series[name]
    return list(zip(series.steps, series.values, strict=True))


def tensor_event(step: int, tag: str, tensor: bytes) -> bytes:
    """An event with a tensor, as tf.summary.scalar writes it, framed as a record."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    value = field(1, tag.encode()) + field(8, tensor)
    message = b"\x09" + struct.pack("<d", 5.0) + b"\x10" + bytes([step]) + field(5, field(1, value))
    return struct.pack("<QI", len(message), 0) + message + b"\0\0\0\0"


def test_scalars_of_a_real_writer(tmp_path: Path) -> None:
    write(tmp_path, {"train/loss": [1.0, 0.5, float("nan"), 0.25], "lr": [1e-4]})
    board = BoardSource([str(tmp_path)], 0.0)
    board.poll()
    assert set(board.collection.series) == {"train/loss", "lr"} and not board.problems
    assert steps_and_values(board, "train/loss")[1] == (1, 0.5) and steps_and_values(
        board, "train/loss"
    )[3] == (
        3,
        0.25,
    )
    assert (
        board.collection.series["train/loss"].values[2]
        != board.collection.series["train/loss"].values[2]
    )
    assert list(board.collection.series["train/loss"].times) == [1000, 1001, 1002, 1003]
    assert board.collection.series["lr"].last == pytest.approx(1e-4)


def test_a_file_is_read_as_it_grows_whatever_is_torn(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", {"loss": [float(i) for i in range(20)]}).read_bytes()
    path = tmp_path / "events.out.tfevents.1.here"
    file, found = EventFile(path), []
    for end in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:end])
        found += [sample.values["loss"] for sample in file.poll() if "loss" in sample.values]
    path.write_bytes(whole)
    found += [sample.values["loss"] for sample in file.poll()]
    assert found == [float(i) for i in range(20)]


def test_tensors_of_one_element_are_scalars(tmp_path: Path) -> None:
    one = b"\x08\x01\x12\x00"  # a float without dimensions
    path = tmp_path / "events.out.tfevents.2.here"
    path.write_bytes(
        tensor_event(1, "content", one + b"\x22\x04" + struct.pack("<f", 0.5))
        + tensor_event(2, "listed", one + b"\x2a\x04" + struct.pack("<f", 0.25))
        + tensor_event(3, "double", b"\x08\x02\x12\x00\x22\x08" + struct.pack("<d", 0.125))
        + tensor_event(4, "long", b"\x08\x09\x12\x00\x52\x01\x07")
        + tensor_event(
            5, "vector", b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + struct.pack("<ff", 1, 2)
        )
        + tensor_event(6, "text", b"\x08\x07\x12\x00\x42\x02hi")
    )
    found = {
        name: value for sample in EventFile(path).poll() for name, value in sample.values.items()
    }
    assert found == {"content": 0.5, "listed": 0.25, "double": 0.125, "long": 7}


def test_a_resumed_writer_s_steps_win(tmp_path: Path) -> None:
    first = write(tmp_path, {"loss": [9.0] * 5})
    first.rename(tmp_path / "events.out.tfevents.0000000001.here")
    write(tmp_path, {"loss": [1.0] * 2}, first=3)
    board = BoardSource([str(tmp_path)], 0.0)
    board.poll()
    assert steps_and_values(board, "loss") == [(0, 9), (1, 9), (2, 9), (3, 1), (4, 1)]


def test_folders_become_part_of_the_name(tmp_path: Path) -> None:
    write(tmp_path / "train", {"loss": [1.0]})
    write(tmp_path / "val", {"loss": [2.0]})
    board = BoardSource([f"{tmp_path}"], 0.0)
    board.poll()
    assert set(board.collection.series) == {"train/loss", "val/loss"}


@pytest.mark.parametrize(
    "content", [b"\xff" * 100, b"\0" * 11, b"not an event file, just a text of some length" * 9]
)
def test_a_damaged_file_is_said_to_be_one_and_nothing_breaks(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "events.out.tfevents.3.here"
    path.write_bytes(content)
    file = EventFile(path)
    assert list(file.poll()) == [] and list(file.poll()) == []
    assert ("damaged" in file.problem) == (len(content) > 11)


def test_garbage_within_a_record_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.4.here"
    good = tensor_event(1, "a", b"\x08\x01\x12\x00\x22\x04" + struct.pack("<f", 0.5))
    for junk in (
        b"\x0b\xff\xff",
        b"\x2a\xff\xff\xff\xff\x7f",
        b"\xff" * 12,
        b"\x09\x00",
        b"\x2a\x03\x0a\x7f\x00",
    ):
        path.write_bytes(struct.pack("<QI", len(junk), 0) + junk + b"\0\0\0\0" + good)
        assert [dict(sample.values) for sample in EventFile(path).poll()] == [{"a": 0.5}], junk
    with pytest.raises((ValueError, IndexError)):
        list(fields(b"\xff" * 12))


def test_a_run_s_own_files_are_found_and_older_ones_of_a_pattern_are_not(tmp_path: Path) -> None:
    import os

    from tests.support import make_plan

    run_folder, boards = tmp_path / "run", tmp_path / "runs"
    write(run_folder / "lightning_logs" / "version_0", {"mine": [1.0]})
    write(boards / "new", {"new": [1.0]}, texts=False)
    os.utime(write(boards / "old", {"old": [1.0]}, texts=False), (500, 500))
    plan = make_plan(tensorboard=(str(boards),))
    metrics = RunMetrics(make_run(State.RUNNING, directory=str(run_folder), plan=plan))
    metrics.poll()
    assert set(metrics.series()) == {"mine", "new"}
    assert metrics.series()["mine"].source == "tensorboard"


def test_a_second_folder_names_the_first_one_s_metrics_as_who_comes_later_does(
    tmp_path: Path,
) -> None:
    write(tmp_path / "train", {"loss": [1.0, 0.5]})
    board = BoardSource([f"{tmp_path}"], 0.0)
    board.poll()
    assert set(board.collection.series) == {"loss"}
    write(tmp_path / "val", {"loss": [2.0]})
    board.poll()
    assert set(board.collection.series) == {"train/loss", "val/loss"}
    assert steps_and_values(board, "train/loss") == [(0, 1.0), (1, 0.5)]


def test_of_more_files_than_are_read_the_newest_are_and_that_is_told(tmp_path: Path) -> None:
    first = write(tmp_path, {"loss": [1.0]}, texts=False)
    for number in range(BoardSource.most):
        path = tmp_path / f"events.out.tfevents.{number}.here"
        path.write_bytes(first.read_bytes())
        os.utime(path, (1e9, 1e9))
    first.unlink()
    write(tmp_path, {"newest": [1.0]}, texts=False)
    board = BoardSource([f"{tmp_path}"], 0.0)
    board.poll()
    assert set(board.collection.series) == {"loss", "newest"}
    assert len(board.problems) == 1 and f"{BoardSource.most + 1}" in board.problems[0]


def test_the_folder_above_all_files_is_found_once_at_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        write(tmp_path / str(number), {"loss": [1.0]}, 1)
    looked = []
    find = os.path.commonpath
    monkeypatch.setattr(os.path, "commonpath", lambda paths: looked.append(1) or find(paths))
    board = BoardSource([str(tmp_path)], 0.0)
    board.poll()
    board.poll()
    assert len(board.collection.series) == 50 and len(looked) == 2
