"""`up`: from an address to a running job by one command, and only what changed the second time."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.places.ssh.registry import RemoteRegistry
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.terminal import Terminal

_PRESET = """\
launcher: command
command: ["python3", "train.py"]
working_directory: ..
gpus: 0
"""


@pytest.fixture
def program(line: CommandLine) -> Path:
    """A folder with a program and a preset for it."""
    (line.folder / "presets").mkdir()
    (line.folder / "presets" / "mine.yaml").write_text(_PRESET)
    (line.folder / "train.py").write_text("print('trains 1')\n")
    return line.folder


def test_from_an_address_to_a_run_and_only_what_changed_again(
    line: CommandLine, rent: Callable[..., RentedMachine], program: Path
) -> None:
    machine = rent()
    up = ("up", machine.address, *machine.options, "--as", "rented", "--python", sys.executable)
    up = (*up, "--price", "3600", "--budget", "100000", "--gpus", "0")
    trains = ("--", "python3", "train.py")
    registry = RemoteRegistry(line.state)
    line.run(*up, *trains, exits=4)
    assert registry.names() == [] and not registry.folder("rented").exists()
    assert not (machine.home / "fresnel").exists()

    first = line.run(*up, "--yes", "--follow", *trains)
    assert "trains 1" in first.stdout
    assert line.json("session", "--host", "rented")["budget_usd"] == 100000
    assert (machine.home / "fresnel" / program.name / "train.py").exists()
    installed = registry.find("rented")

    (program / "train.py").write_text("print('trains 2')\n")
    second = line.run("up", machine.address, "--gpus", "0", "--follow", *trains)
    assert "trains 2" in second.stdout
    assert registry.find("rented") == installed

    # By its name, and a preset.
    done = line.json("up", "rented", "mine", "--wait")
    assert done["state"] == "done" and done["preset"] == "mine"
    (program / "train.py").write_text("print('trains 3')\n")
    assert "trains 3" in line.run("up", "rented", "mine", "--follow").stdout
    line.run("up", "rented", exits=2)
    line.run("up", "--gpus", "0", "rented", "mine", exits=2)


def test_of_two_at_once_on_a_new_machine_the_second_changes_nothing(
    line: CommandLine, rent: Callable[..., RentedMachine], program: Path
) -> None:
    machine = rent()
    words = [machine.address, *machine.options, "--as", "rented", "--python", sys.executable]
    first = Terminal(["env", "-C", str(program), *line.begins, "up", *words, "mine", "--follow"])
    try:
        first.wait_for(r"\[y/N\]")
        line.run("up", *words, "mine", exits=4)
        first.press("y", "Enter")
        first.wait_for("trains 1")
        first.wait_end()
    finally:
        first.close()
    assert RemoteRegistry(line.state).find("rented").installed


def test_it_asks_once_and_says_what_each_step_will_do(
    line: CommandLine, rent: Callable[..., RentedMachine], program: Path
) -> None:
    machine = rent()
    words = [machine.address, *machine.options, "--as", "rented", "mine", "--follow"]
    command = [*line.begins, "up", *words, "--python", sys.executable]
    terminal = Terminal(["env", "-C", str(program), *command])
    try:
        terminal.wait_for(r"\[y/N\]")
        shown = terminal.text
        assert all(step in shown for step in ("add ", "set up ", "push ", "launch "))
        assert "SHA256:" in shown
        terminal.press("y", "Enter")
        terminal.wait_for("trains 1")
        terminal.wait_end()
    finally:
        terminal.close()
    assert (machine.home / "fresnel" / "presets" / "mine.yaml").exists()


def test_the_guide_s_first_run_in_four_commands_and_the_second_in_one(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    """The cloud guide: upload, log in, set up, run, follow, what it costs, download, end."""
    machine = rent()
    typed: list[tuple[str, ...]] = []

    def types(*words: str) -> str:
        typed.append(words)
        done = line.run(*words)
        return done.stdout + done.stderr

    way = (*machine.options, "--as", "amd", "--price", "3600", "--python", sys.executable)
    shown = types("up", machine.address, *way, "--yes", "--follow", "example")
    assert "done" in shown
    fetched = types("fetch", "last", "--host", "amd", "--to", "results")
    assert "$" in types("cost")
    assert len(typed) + 1 <= 4, "the end comes after the second run"

    before = len(typed)
    assert "done" in types("up", "amd", "--follow", "example")
    assert len(typed) == before + 1
    (first,) = [path.name for path in (line.folder / "results").glob("*-example-*")]
    assert first in fetched
    assert (line.folder / "results" / first / "output.log").stat().st_size > 0
    line.run("fetch", "--all", "--host", "amd", "--to", "results")
    types("host", "end", "amd", "--yes", "--end-command", "true")
    assert RemoteRegistry(line.state).names() == []
