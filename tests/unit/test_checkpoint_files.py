"""Whole and half-written checkpoints, by what their formats write last; and whose they are."""

import json
import os
import struct
import time
import zipfile
from pathlib import Path

import pytest

from runners.host.bounded_glob import SearchBudget
from runners.host.checkpoint_files import proof
from runners.host.newest_file import first_whole, matching_files
from runners.host.printed_paths import PrintedPaths, PrintedScan, checkpoint_patterns
from runners.lifecycle.control.resume import newest_checkpoint
from runners.model.errors import NotFound
from runners.model.run import Checkpoint, Run
from runners.model.states import State
from runners.watch.metrics import checkpoints, final_maker
from runners.watch.metrics.checkpoints import CheckpointLook, run_checkpoint
from runners.watch.metrics.final_maker import keep_final
from tests.support import make_plan, make_run


def zipped(path: Path, size: int = 5000) -> bytes:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", os.urandom(size))
        file.writestr("archive/version", "3")
    return path.read_bytes()


def safetensors(size: int = 400) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [100], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.97, 0.999])
def test_half_a_file_is_no_checkpoint(tmp_path: Path, share: float) -> None:
    whole = {"a.pt": zipped(tmp_path / "a.pt"), "b.safetensors": safetensors()}
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
        assert proof(str(tmp_path / name)) is True
        (tmp_path / name).write_bytes(content[: int(len(content) * share)])
        assert proof(str(tmp_path / name)) is False


def superblock(version: int, end: int, width: int = 8) -> bytes:
    """The beginning of an HDF5 file of `end` bytes, field by field."""
    signature = b"\x89HDF\r\n\x1a\n"
    undefined = b"\xff" * width
    addresses = bytes(width) + undefined + end.to_bytes(width, "little") + undefined
    if version >= 2:
        return signature + bytes([version, width, width, 0]) + addresses
    head = bytes([version, 0, 0, 0, 0, width, width, 0])
    ranks = struct.pack("<HHI", 4, 16, 0)
    return (
        signature + head + ranks + (struct.pack("<HH", 32, 0) if version == 1 else b"") + addresses
    )


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_hdf5_tells_where_it_ends(tmp_path: Path, version: int, width: int) -> None:
    path = tmp_path / "a.h5"
    whole = superblock(version, 200, width).ljust(200, b"x")
    path.write_bytes(whole)
    assert proof(str(path)) is True
    for length in (8, 10, 30, 199):
        path.write_bytes(whole[:length])
        assert proof(str(path)) is False, length


def test_an_hdf5_superblock_of_another_kind_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for odd in (superblock(4, 200), superblock(0, 200, 3)):
        path.write_bytes(odd.ljust(200))
        assert proof(str(path)) is None


def test_a_trainer_s_folder_is_whole_with_its_state(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-100"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(safetensors())
    (folder / "training_args.bin").write_bytes(b"\x80\x02x")
    assert proof(str(folder)) is False, "trainer_state.json comes last"
    (folder / "trainer_state.json").write_text('{"global_step": 100')
    assert proof(str(folder)) is False
    (folder / "trainer_state.json").write_text('{"global_step": 100}')
    assert proof(str(folder)) is True
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"w": "model-2.safetensors"}}'
    )
    assert proof(str(folder)) is False, "a shard is missing"


def test_the_newest_whole_one_wins_and_those_of_no_use_are_left_out(tmp_path: Path) -> None:
    for i, name in enumerate(("e1.pt", "e2.pt", "e3.pt")):
        content = zipped(tmp_path / name)
        (tmp_path / name).write_bytes(content if name != "e3.pt" else content[:3000])
        os.utime(tmp_path / name, (1000 + i, 1000 + i))
    pattern = [str(tmp_path / "*.pt")]
    files = matching_files(pattern)
    found = first_whole(files)
    before = first_whole(file for file in files if not file.path.endswith("e2.pt"))
    assert found is not None and found.path.endswith("e2.pt")
    assert before is not None and before.path.endswith("e1.pt")


def test_what_has_no_end_mark_must_be_quiet(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * 10)
    assert first_whole(matching_files([str(tmp_path / "*.bin")]), 60.0) is None
    assert first_whole(matching_files([str(tmp_path / "*.bin")])) is not None


def test_a_run_s_checkpoint_is_its_own(tmp_path: Path) -> None:
    mine, shared = tmp_path / "run", tmp_path / "shared"
    for folder in (mine, shared):
        folder.mkdir()
    zipped(shared / "old.pt")
    os.utime(shared / "old.pt", (1000.0, 1000.0))
    plan = make_plan(checkpoints=(f"{shared}/*.pt", f"{mine}/*.pt"), working_directory=str(shared))
    run = make_run(
        State.DONE, directory=str(mine), plan=plan, started=time.time() - 60, ended=time.time()
    )
    assert run_checkpoint(run) is None, "it was there before the run began"
    zipped(shared / "new.ckpt")
    (mine / "output.log").write_text("Saved checkpoint to ./new.ckpt")
    found = run_checkpoint(run)
    assert found is not None and found.path == str(shared / "new.ckpt")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("Saved checkpoint to ck/e1.pt", "ck/e1.pt"),
        ("saving checkpoint to out-shakespeare-char", None),
        ("Saving model checkpoint to out/checkpoint-150", "out/checkpoint-150"),
        ("Epoch 0 | Training checkpoint saved at ck.pt", "ck.pt"),
        ("✓ Saved best checkpoint: checkpoints_4gpu/stage1_best.pt (PSNR: 8.42 dB)",
            "checkpoints_4gpu/stage1_best.pt"),
        ("Logging to tb/PPO_1", "tb/PPO_1"),
        ("loss 0.5 at 3/10 it/s", None),
    ],
)  # fmt: skip
def test_paths_that_programs_print(line: str, path: str | None) -> None:
    said = PrintedPaths("/w")
    said.note(line.encode())
    assert said.all == (() if path is None else (f"/w/{path}",))
    assert checkpoint_patterns(said.all) == ([] if path is None or "tb" in path else [f"/w/{path}"])


def test_a_folder_of_accelerate_is_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "epoch_3").mkdir()
    (tmp_path / "epoch_3" / "optimizer.bin").touch()
    assert str(tmp_path / "epoch_3") not in checkpoint_patterns([str(tmp_path / "epoch_3")])
    (tmp_path / "epoch_3" / "random_states_0.pkl").touch()
    assert checkpoint_patterns([str(tmp_path / "epoch_3")]) == [str(tmp_path / "epoch_3")]


def test_printed_paths_of_all_attempts_are_found_however_the_output_is_read(tmp_path: Path) -> None:
    def note(name: str) -> None:
        with (tmp_path / "output.log").open("a") as file:
            file.write(f"saved checkpoint to {name}\n")

    kept = PrintedScan(tmp_path, "/w")
    note("a.pt")
    assert kept.poll().all == ("/w/a.pt",)
    (tmp_path / "output.log").rename(tmp_path / "output.1.log")
    note("b.pt")
    assert kept.poll().all == ("/w/a.pt", "/w/b.pt") == PrintedScan(tmp_path, "/w").poll().all


def test_what_its_watcher_noted_is_known_to_those_who_look_once(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_text("x\n" * 100_000 + "saved checkpoint to a.pt\n")
    watcher = PrintedScan(tmp_path, "/w")
    watcher.save()
    with output.open("a") as file:
        file.write("50%|##### | 3.2 it/s\r" * 100_000)
    watcher.save()
    assert PrintedScan(tmp_path, "/w").poll().all == ("/w/a.pt",)


def test_a_live_run_s_checkpoint_is_searched_for_now_and_then_an_ended_one_s_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, searches = 1000.0, []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now)

    def search(run: Run, *_: object, **__: object) -> Checkpoint | None:
        searches.append(run.state)
        return run_checkpoint(run)

    monkeypatch.setattr(checkpoints, "run_checkpoint", search)
    plan = make_plan(checkpoints=(f"{tmp_path}/*.pt",), working_directory=str(tmp_path))
    live = make_run(State.RUNNING, directory=str(tmp_path), plan=plan, started=time.time() - 60)
    ended = make_run(State.DONE, directory=str(tmp_path), plan=plan, started=time.time() - 60)
    look = CheckpointLook()
    assert look.newest(live) is None
    zipped(tmp_path / "a.pt")
    for _ in range(4):
        now += 1.0
        assert look.newest(live) is None
    now += 1.1
    found = look.newest(live)
    assert found is not None and found.path.endswith("a.pt")
    assert searches == [State.RUNNING] * 2
    zipped(tmp_path / "b.pt")
    os.utime(tmp_path / "a.pt", (1000.0, 1000.0))
    found = look.newest(ended)
    assert found is not None and found.path.endswith("b.pt")


def test_what_another_run_writes_later_into_the_same_folder_is_not_an_ended_run_s(
    tmp_path: Path,
) -> None:
    own, out = tmp_path / "run", tmp_path / "out"
    own.mkdir()
    out.mkdir()
    patterns = (f"{own}/*.pt", f"{out}/*.pt")
    plan = make_plan(checkpoints=patterns, working_directory=str(tmp_path))
    run = make_run(State.DONE, directory=str(own), plan=plan, started=1000.0, ended=2000.0)
    zipped(out / "first.pt")
    os.utime(out / "first.pt", (1990.0, 1990.0))
    keep_final(run)
    zipped(out / "later.pt")
    os.utime(out / "later.pt", (3000.0, 3000.0))

    def newest() -> str | None:
        found = run_checkpoint(run)
        return found and Path(found.path).name

    assert newest() == "first.pt"
    # A copied run folder: its files look younger than they are.
    zipped(own / "own.pt")
    assert newest() == "own.pt"
    (own / "own.pt").unlink()
    (out / "first.pt").unlink()
    assert newest() is None
    with pytest.raises(NotFound, match="replaced by another run"):
        newest_checkpoint(run)


def test_where_not_all_was_found_at_the_end_nothing_later_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    for name, at in (("a.pt", 1500.0), ("b.pt", 1900.0)):
        zipped(tmp_path / name)
        os.utime(tmp_path / name, (at, at))
    plan = make_plan(checkpoints=tuple(f"{tmp_path}/{n}.pt" for n in "ab"))
    run = make_run(
        State.DONE, directory=str(tmp_path / "run"), plan=plan, started=1000.0, ended=2000.0
    )
    small = SearchBudget(most=1)
    monkeypatch.setattr(final_maker, "SearchBudget", lambda: small)
    keep_final(run)
    found = run_checkpoint(run)
    assert found is not None and found.path.endswith("b.pt")


def test_what_a_search_left_out_is_said_as_long_as_its_answer_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SearchBudget(most=1)
    monkeypatch.setattr(checkpoints, "SearchBudget", lambda: small)
    for name in ("a.pt", "b.pt"):
        zipped(tmp_path / name)
    plan = make_plan(checkpoints=(f"{tmp_path}/*.pt",), working_directory=str(tmp_path))
    run = make_run(State.RUNNING, directory=str(tmp_path), plan=plan)
    look = CheckpointLook()
    for _ in range(2):
        look.newest(run)
        assert look.cut == small.cut != ""
