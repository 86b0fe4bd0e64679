"""Which files `push` takes to a machine and which it deletes there. They are chosen before it matters
how they are copied: what that may change is tested with rsync and without.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine

PRESET = """\
launcher: command
command: ["python3", "train.py"]
working_directory: {program}
parameters:
  data_dir: {{value: {data}, type: str}}
gpus: 0
"""


@pytest.fixture
def program(line: CommandLine) -> Path:
    """A program in a git work tree, with data beside it that git does not know."""
    folder, data = line.folder / "program", line.folder / "data"
    for path in (folder, data, line.folder / "presets"):
        path.mkdir()
    preset = PRESET.format(program=folder, data=data)
    (line.folder / "presets" / "mine.yaml").write_text(preset)
    for name in ("train.py", "old.py", "kept.py"):
        (folder / name).write_text("v = 1\n")
    for name in ("0 of two.jpg", "1 of two.jpg"):
        (data / name).write_bytes(os.urandom(1000))
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "."], check=True)
    return folder


def _push(line: CommandLine, *words: str) -> dict[str, Any]:
    """What was pushed, by what it is."""
    answer = line.json("push", "mine", "--host", "rented", *words)
    return {item["what"]: item for item in answer["items"]}


def _there(items: dict[str, Any]) -> dict[str, Path]:
    return {what: Path(item["remote"]) for what, item in items.items()}


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_git_ignores_stays_here(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    (program / ".gitignore").write_text("*.tmp\n/results/\n")
    (program / ".git" / "info" / "exclude").write_text("mine-alone\n")
    (program / "library").mkdir()
    (program / "library" / ".gitignore").write_text("built\n")
    (program / "results").mkdir()
    for name in ("a.tmp", "results/x", "mine-alone", "library/built", "library/results"):
        (program / name).write_text("x")
    data = line.folder / "data"
    (data / ".gitignore").write_text("thumbnails/\n")
    (data / "thumbnails").mkdir()
    (data / "thumbnails" / "0.jpg").write_text("x")
    there = _there(_push(line))
    library = {"library/.gitignore", "library/results"}
    assert _names(there["program"]) == {".gitignore", "train.py", "old.py", "kept.py"} | library
    assert _names(there["data_dir"]) == {".gitignore", "0 of two.jpg", "1 of two.jpg"}


def test_data_that_the_repository_around_it_ignores_is_sent(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    shutil.copytree(line.folder / "data", program / "data")
    (program / ".gitignore").write_text("/data/\n")
    _push(line, "--set", "data_dir=data")
    sent = _names(rented.home / "fresnel" / "program")
    assert {"data/0 of two.jpg", "data/1 of two.jpg"} < sent


def test_only_what_changed_is_sent_even_within_one_second(
    line: CommandLine, rented: RentedMachine, way: str, program: Path
) -> None:
    assert {what: item["files"] for what, item in _push(line, "--dry-run").items()} == {
        "program": 3,
        "data_dir": 2,
        "preset": 1,
    }
    assert not (rented.home / "fresnel").exists()
    os.utime(program / "train.py", ns=(10**18, 10**18))
    _push(line)
    (program / "train.py").write_text("v = 2\n")
    os.utime(program / "train.py", ns=(10**18, 10**18 + 5))
    assert {what: item["files"] for what, item in _push(line).items()} == {
        "program": 1,
        "data_dir": 0,
        "preset": 0,
    }
    assert (rented.home / "fresnel" / "program" / "train.py").read_text() == "v = 2\n"


def test_what_was_pushed_and_deleted_here_is_deleted_there_and_nothing_else(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    (program / "package").mkdir()
    (program / "package" / "module.py").write_text("")
    (program / "left_out.py").write_text("")
    _push(line)
    there = rented.home / "fresnel" / "program"
    (there / "result.txt").write_text("made there")
    (there / "kept.py").write_text("changed there")
    for name in ("old.py", "kept.py", "package/module.py"):
        (program / name).unlink()
    (program / "package").rmdir()
    assert _push(line, "--dry-run")["program"]["deleted"] == 2
    assert (there / "old.py").exists()
    assert _push(line, "--exclude", "left*")["program"]["deleted"] == 2
    assert _names(there) == {"train.py", "left_out.py", "result.txt", "kept.py"}
    assert not (there / "package").exists()


def test_a_folder_that_is_empty_here_deletes_nothing_there(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    there = _there(_push(line))
    data = line.folder / "data"
    for path in data.iterdir():
        path.unlink()
    assert "nothing is deleted" in line.run("push", "mine", "--host", "rented").stderr
    assert len(_names(there["data_dir"])) == 2


def test_secrets_stay_here_unless_they_are_asked_for(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    data = line.folder / "data"
    (data / ".env").write_text("TOKEN=x")
    (data / "deploy.pem").write_text("x")
    (program / ".gitignore").write_text(".env\n")
    (program / ".env").write_text("TOKEN=x")
    done = line.run("push", "mine", "--host", "rented")
    assert ".env" in done.stderr and "deploy.pem" in done.stderr
    there = _there(_push(line))
    assert _names(there["program"]) == {".gitignore", "train.py", "old.py", "kept.py"}
    assert _names(there["data_dir"]) == {"0 of two.jpg", "1 of two.jpg"}
    _push(line, "--secrets")
    assert {".env", "deploy.pem"} < _names(there["data_dir"])
    assert ".env" in _names(there["program"])


def test_links_to_files_are_sent_as_files_and_those_to_folders_are_named(
    line: CommandLine, rented: RentedMachine, way: str, program: Path
) -> None:
    target = line.folder / "weights.onnx"
    target.write_text("weights")
    (program / "weights.onnx").symlink_to(target)
    (program / "everything").symlink_to(line.folder)
    assert "everything" in line.run("push", "mine", "--host", "rented").stderr
    there = rented.home / "fresnel" / "program"
    assert (there / "weights.onnx").read_text() == "weights"
    assert not (there / "weights.onnx").is_symlink()
    assert not (there / "everything").exists()
