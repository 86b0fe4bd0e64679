"""Groups of machines by label: a command, a push or a set-up on all of them at once."""

import sys
from collections.abc import Callable, Sequence

import pytest

from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine


@pytest.fixture
def three(line: CommandLine, rent: Callable[..., RentedMachine]) -> Sequence[RentedMachine]:
    """Three machines; `a` and `b` have the label `spot`."""
    machines = [rent(name) for name in "abc"]
    for machine in machines:
        add(line, machine)
    line.run("host", "label", "a,b", "spot")
    return machines


def test_a_label_stands_for_its_machines(line: CommandLine, three: Sequence[RentedMachine]) -> None:
    assert sorted(line.json("list", "--host", "@spot")) == ["a", "b"]
    assert sorted(line.json("gpus", "--host", "@spot,c")) == ["a", "b", "c"]
    shown = {host["name"]: host["labels"] for host in line.json("host", "list")}
    assert shown == {"a": ["spot"], "b": ["spot"], "c": []}
    line.run("host", "unlabel", "all", "spot")
    line.run("list", "--host", "@spot", exits=3)


def test_runs_of_several_machines_are_stopped_by_one_command(
    line: CommandLine, three: Sequence[RentedMachine]
) -> None:
    for name in "abc":
        line.run("launch", "--gpus", "0", "--host", name, "--", "sleep", "600")
    line.run("stop", "--all", "--wait", "--host", "@spot")
    runs = line.json("list", "--host", "all")
    assert [run["state"] for name in "abc" for run in runs[name]] == [
        "stopped",
        "stopped",
        "running",
    ]


def test_a_preset_is_pushed_to_many_at_once(
    line: CommandLine, three: Sequence[RentedMachine]
) -> None:
    (line.folder / "mine.py").write_text("print('hello')\n")
    (line.folder / "mine.yaml").write_text("launcher: python\nscript: mine.py\n")
    pushed = line.json("push", "./mine.yaml", "--host", "all")
    assert {name: answer["sent"] for name, answer in pushed.items()} == dict.fromkeys("abc", True)
    assert all((machine.home / "fresnel" / "presets" / "mine.yaml").is_file() for machine in three)


def test_several_are_set_up_at_once(line: CommandLine, rent: Callable[..., RentedMachine]) -> None:
    for name in "ab":
        machine = rent(name)
        line.run("host", "add", name, machine.address, *machine.options, "--label", "spot")
    done = line.json("host", "setup", "@spot", "--python", sys.executable)
    assert sorted(done) == ["a", "b"]
    assert sorted(line.json("list", "--host", "@spot")) == ["a", "b"]
