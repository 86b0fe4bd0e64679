"""The newest checkpoint, seen on disk."""

import os
from pathlib import Path

import pytest

from runners.host.newest_file import first_whole, matching_files, run_files
from runners.host.printed_paths import PrintedPaths
from runners.watch.metrics.checkpoints import checkpoint_files
from tests.support import make_plan, make_run


def put(path: Path, size: int, modified: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (modified, modified))
    return path


def test_the_newest_wins_and_is_reported_with_size_and_time(tmp_path: Path) -> None:
    put(tmp_path / "a.pt", 10, 1000)
    put(tmp_path / "b.pt", 20, 3000)
    put(tmp_path / "c.pt", 30, 2000)
    found = first_whole(matching_files([str(tmp_path / "*.pt")]))
    assert found is not None
    assert (found.path, found.bytes, found.modified) == (str(tmp_path / "b.pt"), 20, 3000.0)


def test_what_is_still_being_written_does_not_count(tmp_path: Path) -> None:
    put(tmp_path / "a.pt", 10, 1000)
    for ending in (".tmp", ".new", ".part", ".partial"):
        put(tmp_path / f"b.pt{ending}", 10, 9000)
    found = first_whole(matching_files([str(tmp_path / "*")]))
    assert found is not None and found.path.endswith("a.pt")


def test_a_folder_counts_with_all_its_files_and_not_when_empty(tmp_path: Path) -> None:
    put(tmp_path / "step-10" / "model.bin", 10, 1000)
    put(tmp_path / "step-10" / "sub" / "optim.bin", 5, 2000)
    (tmp_path / "step-20").mkdir()
    found = first_whole(matching_files([str(tmp_path / "step-*")]))
    assert found is not None
    assert (found.path, found.bytes, found.modified) == (str(tmp_path / "step-10"), 15, 2000.0)


def test_several_patterns_and_none(tmp_path: Path) -> None:
    put(tmp_path / "x" / "a.pt", 1, 1000)
    put(tmp_path / "y" / "deep" / "b.ckpt", 2, 2000)
    found = first_whole(
        matching_files([str(tmp_path / "x" / "*.pt"), str(tmp_path / "y" / "**" / "*.ckpt")])
    )
    assert found is not None and found.path.endswith("b.ckpt")
    assert first_whole(matching_files([str(tmp_path / "nope" / "*")])) is None
    assert first_whole(matching_files([])) is None


def test_a_dangling_link_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "latest.pt").symlink_to(tmp_path / "gone.pt")
    assert first_whole(matching_files([str(tmp_path / "*.pt")])) is None


def test_weights_beside_checkpoints_are_not_what_a_run_goes_on_from(tmp_path: Path) -> None:
    """Though the program says where they are, as it does at its end: the preset knows better."""
    kept = put(tmp_path / "kept" / "epoch_9.pt", 5, 2000)
    weights = put(tmp_path / "kept" / "model.safetensors", 5, 3000)
    further = put(tmp_path / "out" / "last.ckpt", 5, 1000)
    printed = PrintedPaths(str(tmp_path))
    printed.note(f"weights saved to {weights}".encode())
    printed.note(f"saved {further}".encode())
    patterns = [str(tmp_path / "kept" / "*.pt")]
    found = run_files(str(tmp_path), patterns, printed, started=0.0)
    assert [file.path for file in found] == [str(kept), str(further)]
    # One that leaves it open takes all.
    all_found = run_files(str(tmp_path), [str(tmp_path / "kept" / "*")], printed, started=0.0)
    assert all_found[0].path == str(weights)


@pytest.mark.parametrize("words", [("--output_dir", "o ut[1]"), ("--output_dir=o ut[1]",)])
def test_the_trainer_s_folder_is_known_by_its_flag(tmp_path: Path, words: tuple[str, ...]) -> None:
    put(tmp_path / "o ut[1]" / "checkpoint-80" / "model.safetensors", 5, 2000)
    put(tmp_path / "o ut[1]" / "checkpoint-160" / "model.safetensors", 5, 3000)
    put(tmp_path / "o ut[1]" / "checkpoint-240" / "model.safetensors", 5, 500)  # of an older run
    argv = ("python", "train.py", *words)
    run = make_run(
        directory=str(tmp_path), plan=make_plan(argv=argv, working_directory=str(tmp_path))
    )
    assert [Path(file.path).name for file in checkpoint_files(run)][:2] == [
        "checkpoint-160",
        "checkpoint-80",
    ]
