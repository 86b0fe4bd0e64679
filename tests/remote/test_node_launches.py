"""Plain programs on several rented machines: their ranks, their port; nothing is left alone."""

import json
import os
import signal
from collections.abc import Callable, Sequence

import pytest

from runners.host.locks import is_held, locked
from runners.places.ssh.node_groups import find_group, group_lock
from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine
from tests.support import CEILING_S, eventually

SHOWN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "FRESNEL_NODE_ADDRESSES")
SHOW = (
    "import json, os, sys; "
    f"found = {{name: os.environ.get(name) for name in {SHOWN!r}}}; "
    "print(json.dumps({**found, 'arguments': sys.argv[1:]}))"
)


@pytest.fixture
def pair(line: CommandLine, rent: Callable[..., RentedMachine]) -> Sequence[RentedMachine]:
    """Two machines, `a` and `b`."""
    machines = [rent("a"), rent("b")]
    for machine in machines:
        add(line, machine)
        (machine.home / "fresnel").mkdir()
    return machines


def runs_on(machine: RentedMachine) -> list[str]:
    """The runs that were made there."""
    folder = machine.state / "runs"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def output_of(machine: RentedMachine) -> str:
    """What its one run has printed."""
    (run,) = runs_on(machine)
    return (machine.state / "runs" / run / "output.log").read_text()


def test_each_has_its_rank_and_all_have_one_port(
    line: CommandLine, pair: Sequence[RentedMachine]
) -> None:
    words = ("launch", "--hosts", "a,b", "--gpus", "0", "--wait", "--", "python3", "-c", SHOW)
    line.run(*words, "--its-own")
    ranks = [json.loads(output_of(machine)) for machine in pair]
    assert [rank["RANK"] for rank in ranks] == ["0", "1"]
    for rank in ranks:
        assert rank["arguments"] == ["--its-own"]
        assert rank["WORLD_SIZE"] == "2" and rank["LOCAL_RANK"] == "0"
        assert rank["MASTER_PORT"] == ranks[0]["MASTER_PORT"] not in ("29500", "0", None)
        addresses = rank["FRESNEL_NODE_ADDRESSES"].split(",")
        assert len(addresses) == 2 and addresses[0] == rank["MASTER_ADDR"]


@pytest.mark.parametrize("killed", ["client", "watcher"])
def test_who_dies_between_two_nodes_leaves_none_alone(
    line: CommandLine, pair: Sequence[RentedMachine], killed: str
) -> None:
    over = line.folder / "over"
    program = ("sh", "-c", f"while [ ! -e {over} ]; do sleep 0.1; done")
    there = StateDirectory(pair[1].state).create()
    # Nobody can start there for as long as this is held.
    with locked(there.allocation_lock):
        client = line.begin(
            *("launch", "--hosts", "a,b", "--gpus", "0", "--name", "both", "--", *program)
        )
        eventually(lambda: runs_on(pair[0]) or client.poll() is not None, what="node 0")
        assert client.poll() is None, client.communicate()
        if killed == "client":
            client.kill()
        else:
            lock = group_lock(line.state, "both")
            os.kill(int(eventually(lock.read_text)), signal.SIGKILL)
            eventually(lambda: not is_held(lock))
            line.run("nodes", "status", "both", exits=None)
    eventually(lambda: find_group(line.state, "both").has_started, 2 * CEILING_S)
    over.touch()
    eventually(lambda: find_group(line.state, "both").ended, 2 * CEILING_S)
    assert [len(runs_on(machine)) for machine in pair] == [1, 1]
    assert find_group(line.state, "both").cause == ""


def test_what_one_machine_refuses_runs_on_none(
    line: CommandLine, pair: Sequence[RentedMachine]
) -> None:
    # What can be planned there cannot start.
    requests = pair[1].state / "requests"
    requests.parent.mkdir(parents=True, exist_ok=True)
    requests.write_text("no folder")
    words = ("launch", "--hosts", "a,b", "--gpus", "0", "--name", "both", "--", "sleep", "1000")
    refused = line.run(*words, exits=4).stderr
    assert "fresnel-tui: b: " in refused
    shown = line.json("nodes", "status", "both")
    assert [node["run"] is None for node in shown["nodes"]] == [False, True]
    (run,) = runs_on(pair[0])
    assert line.json("status", run, "--host", "a")["state"] not in ("running", "starting")
