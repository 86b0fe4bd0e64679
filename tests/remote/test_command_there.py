"""`launch --host NAME -- COMMAND`: the folder goes there first, and the command runs in it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine

_TRAIN = "import pathlib, helper; print('in', pathlib.Path.cwd().name, helper.V)\n"
_RUN = ("--host", "rented", "--gpus", "0", "--wait")
_TRAINS = (*_RUN, "--", "python3", "train.py")


@pytest.fixture
def program(line: CommandLine) -> Path:
    """A program in a git work tree, with data that git ignores."""
    folder = line.folder / "program"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text(_TRAIN)
    (folder / "helper.py").write_text("V = 1\n")
    (folder / "data" / "0.bin").write_bytes(b"x")
    (folder / ".gitignore").write_text("/data/\n")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "train.py"], check=True)
    line.folder = folder
    return folder


def _launched(line: CommandLine, *words: str) -> str:
    """What a launch that waits printed there."""
    run = line.run("launch", *words).stdout.strip()
    return line.run("logs", run, "--host", "rented").stdout


def test_a_command_runs_in_the_folder_that_is_sent_first(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    there = rented.home / "fresnel" / "program"
    planned = line.json("plan", "--host", "rented", "--gpus", "0", "--", "python3", "train.py")
    assert planned["working_directory"] == str(there)
    assert not (there / "train.py").exists()
    assert _launched(line, *_TRAINS) == "in program 1\n"
    assert {path.name for path in there.glob("*.py")} == {"helper.py", "train.py"}
    assert not (there / "data").exists()
    (program / "helper.py").write_text("V = 2\n")
    assert _launched(line, *_RUN, "--no-push", *_TRAINS[-3:]) == "in program 1\n"
    assert _launched(line, *_TRAINS) == "in program 2\n"
    # What is not this folder's starts where runs start, and sends nothing.
    assert Path(_launched(line, *_RUN, "--", "pwd").strip()) == rented.home / "fresnel"
    (program / "new.py").write_text("")
    assert Path(_launched(line, *_RUN, "--push", "--", "pwd").strip()) == there
    assert (there / "new.py").exists()


def test_what_stays_here_is_named_and_may_be_sent_too(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    reads = ("--", "python3", "train.py", "--data=data", "--more", "../elsewhere")
    (program.parent / "elsewhere").mkdir()
    done = line.run("launch", *_RUN, *reads)
    assert [text for text in done.stderr.splitlines() if "data: " in text and "--also" in text]
    assert [text for text in done.stderr.splitlines() if "../elsewhere: " in text]
    line.run("launch", *_RUN, "--also", "data", *reads)
    assert (rented.home / "fresnel" / "program" / "data" / "0.bin").exists()


def test_much_is_sent_only_when_somebody_agrees(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    with (program / "large.bin").open("wb") as large:
        large.truncate(201_000_000)
    refused = line.run("launch", *_TRAINS, exits=4).stderr
    assert "--yes" in refused
    assert not (rented.home / "fresnel" / "program").exists()
    # Nobody is asked by what starts it later: it would be refused for ever.
    queued = line.run("launch", "--host", "any", *_TRAINS[2:], exits=4).stderr
    assert "--yes" in queued
    (program / ".gitignore").write_text("*.bin\n")
    line.run("launch", *_TRAINS)


def test_two_folders_of_one_name_lie_apart_there(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    line.run("launch", *_TRAINS)
    other = program.parent / "other" / "program"
    other.mkdir(parents=True)
    (other / "train.py").write_text("print('another')\n")
    line.folder = other
    assert _launched(line, *_TRAINS) == "another\n"
    assert (rented.home / "fresnel" / "program" / "train.py").read_text() == _TRAIN


def test_whichever_machine_is_chosen_gets_the_folder(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    line.run("launch", "--host", "any", *_TRAINS[2:])
    assert (rented.home / "fresnel" / "program" / "helper.py").exists()


_WRITES = """\
import os, pathlib, time
print(pathlib.Path("input.txt").read_text())
pathlib.Path("out/weights").mkdir(parents=True, exist_ok=True)
pathlib.Path("out/table.csv").write_text("a,b")
for i, name in enumerate(("encoder", "decoder", "epoch_1", "best", "epoch_2")):
    pathlib.Path(f"out/weights/{name}.pt").write_bytes(name.encode())
    os.utime(f"out/weights/{name}.pt", (time.time(), time.time() + i / 10))
time.sleep(0.5)
pathlib.Path("input.txt").write_text("sent-2")
"""


def test_what_it_wrote_into_its_folder_comes_back(
    line: CommandLine, rented: RentedMachine, way: str, program: Path
) -> None:
    (program / "train.py").write_text(_WRITES)
    (program / "input.txt").write_text("sent-1")
    os.utime(program / "input.txt", (10**9, 10**9))
    os.utime(program / "helper.py", (10**9, 10**9))
    run = line.run("launch", *_TRAINS).stdout.strip()
    came = program / "fetched" / run
    assert "sent-1" in (came / "output.log").read_text()
    found = {str(path.relative_to(came / "folder")) for path in (came / "folder").rglob("*.*")}
    assert found == {
        "input.txt",
        "out/table.csv",
        "out/weights/best.pt",
        "out/weights/decoder.pt",
        "out/weights/encoder.pt",
        "out/weights/epoch_2.pt",
    }
    assert (came / "folder" / "input.txt").read_text() == "sent-2"
    before = {path.name for path in (program / "fetched").iterdir()}
    # It is not sent back, and nothing comes where nobody waits or wants it.
    assert line.run("launch", *_RUN, "--no-fetch", *_TRAINS[-3:]).stdout.strip() != run
    assert {path.name for path in (program / "fetched").iterdir()} == before
    assert not (rented.home / "fresnel" / "program" / "fetched").exists()


def test_a_launch_that_is_refused_leaves_nothing_there(
    line: CommandLine, rented: RentedMachine, program: Path
) -> None:
    words = ("launch", "--host", "rented", "--gpus", "99", "--no-queue", "--wait")
    line.run(*words, "--", "python3", "train.py", exits=4)
    assert line.json("list", "--all", "--host", "rented") == []
