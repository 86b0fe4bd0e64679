"""A launch over a line that breaks: never lost, and never done twice."""

import random
import threading

import pytest

from runners.model.errors import FresnelError
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.ssh import Ssh
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tui.cli.host_run import remote_json

_LAUNCH = ("launch", "--gpus", "0", "--host", "rented", "--", "true")
_ROUNDS = 4


def test_a_launch_is_neither_lost_nor_doubled(line: CommandLine, rented: RentedMachine) -> None:
    chance = random.Random(7)
    made = []
    for _ in range(_ROUNDS):
        launching = line.begin(*_LAUNCH)
        over = threading.Event()

        def cut(over: threading.Event = over) -> None:
            # At any byte of the way there and back; so often a launch tries to reach a machine
            # again before it has asked for anything.
            left = 2
            while left and not over.wait(chance.uniform(0.05, 0.5)):
                left -= rented.wire.cut() > 0

        cutter = threading.Thread(target=cut)
        cutter.start()
        said, problem = launching.communicate(timeout=100)
        over.set()
        cutter.join()
        assert launching.returncode == 0, problem
        made.append(said.decode().strip())
    there = [run["id"] for run in line.json("list", "--host", "rented")]
    assert sorted(there) == sorted(made)


def test_the_same_request_answers_with_the_run_already_made(
    line: CommandLine, rented: RentedMachine
) -> None:
    request = "0123456789abcdef"
    first = line.run(*_LAUNCH, FRESNEL_REQUEST=request).stdout
    again = line.run(*_LAUNCH, FRESNEL_REQUEST=request).stdout
    other = line.run(*_LAUNCH).stdout
    assert first == again != other
    assert len(line.json("list", "--host", "rented")) == 2


def test_what_a_command_there_refuses_is_told_once_and_with_its_hint(
    line: CommandLine, rented: RentedMachine
) -> None:
    """Its message was all it had written for people, name and hint of the command within it."""
    registry = RemoteRegistry(line.state)
    with pytest.raises(FresnelError) as refused:
        remote_json(Ssh(registry, registry.find("rented")), ["status", "nothing"], dict)
    assert refused.value.hint
    assert refused.value.message.count("\n") == 0 and "fresnel-tui" not in refused.value.message
