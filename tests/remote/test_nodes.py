"""One program over two rented machines: they find each other, and end together."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from runners.places.ssh.frames import NodeEnding
from runners.places.ssh.node_groups import NodeRun, find_group
from runners.places.ssh.node_watch import Ended, find_cause
from tests.command_text import MAY_BE_THE_CAUSE, NOT_REACHED, NOTHING_STARTED
from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.lab import Lab
from tests.remote.machines import RentedMachine, free_port
from tests.remote.network import why_no_network
from tests.support import CEILING_S, eventually

PRESET = """\
launcher: torchrun
interpreter: ${python}
script: both.py
working_directory: ${working_directory}
parameters:
  fails: {value: -1, type: int}
gpus: 0
processes: 1
stop: {ladder: [SIGTERM 5s, SIGKILL 5s]}
"""

# Adds up the ranks' numbers over both machines; the rank that shall fail does so then.
PROGRAM = """\
import sys, torch, torch.distributed as together
together.init_process_group("gloo")
rank = together.get_rank()
number = torch.tensor([rank + 1.0])
together.all_reduce(number)
print("sum", int(number), "of", together.get_world_size(), flush=True)
if str(rank) == sys.argv[sys.argv.index("--fails") + 1]:
    raise RuntimeError("this node has had enough")
together.all_reduce(number)
"""


class Pair(NamedTuple):
    """Two machines, `a` and `b`, and the command line that they were added to."""

    line: CommandLine
    machines: Sequence[RentedMachine]


@pytest.fixture
def both(tmp_path: Path, line: CommandLine, rent: Callable[..., RentedMachine]) -> Iterator[Pair]:
    """Two machines with the preset and its program: where namespaces can be had in a network of
    their own, behind a jump host, with wrong addresses in `/etc/hosts`.
    """
    lab = None if why_no_network() else Lab(tmp_path / "lab")
    try:
        if lab is None:
            pair = Pair(line, [rent("a"), rent("b")])
            for machine in pair.machines:
                add(line, machine)
        else:
            for name in ("a", "b"):
                lab.set_up(name)
            pair = Pair(lab.line, [lab.machine("a"), lab.machine("b")])
        for machine in pair.machines:
            machine.write("fresnel/presets/both.yaml", PRESET)
            machine.write("fresnel/both.py", PROGRAM)
        yield pair
    finally:
        if lab is not None:
            lab.close()


@pytest.mark.trainers
@pytest.mark.skipif(find_spec("torch") is None, reason="no torch here")
def test_two_machines_compute_together_and_end_together(both: Pair) -> None:
    line, machines = both
    (line.folder / "presets").mkdir()
    words = f"nodes: {{hosts: [a, b], port: {free_port()}}}\n"
    (line.folder / "presets" / "both.yaml").write_text(PRESET + words)
    started = line.json("launch", "both", "--set", "fails=1")
    assert [node["host"] for node in started["nodes"]] == ["a", "b"]
    # Nobody waits for it: what watches it needs no terminal.
    eventually(lambda: find_group(line.state, "last").ended, 3 * CEILING_S, "the end of all")
    shown = line.json("nodes", "status", "last")
    assert shown["cause"].startswith("node 1 on b failed: ")
    assert "has had enough" in shown["cause"]
    assert not {"running", "stopping", "starting"} & {run["state"] for run in shown["runs"]}
    assert line.run("nodes", "wait", "last", exits=1).stderr.strip() == shown["cause"]
    for machine, node in zip(machines, started["nodes"], strict=True):
        output = (machine.state / "runs" / node["run"] / "output.log").read_text()
        assert "sum 3 of 2" in output


def test_all_or_none(both: Pair) -> None:
    line, machines = both
    (machines[1].home / "fresnel" / "both.py").unlink()
    port = ("--master-port", str(free_port()))
    refused = line.run("launch", "both", "--hosts", "a,b", *port, exits=2).stderr
    assert "fresnel-tui: b: " in refused and "script: no file" in refused
    assert NOTHING_STARTED in refused
    assert [line.json("list", "--host", name) for name in "ab"] == [[], []]


def test_who_lost_the_connection_is_not_the_cause() -> None:
    def node(name: str, *ending: object) -> Ended:
        return Ended(NodeRun(name, "run"), NodeEnding(*ending))  # type: ignore[arg-type]

    lost = "RuntimeError: [../gloo/transport/tcp/pair.cc] Connection closed by peer [10.0.0.2]"
    nodes = [node("a", "failed", lost, 10.0), node("b", "failed", "killed by SIGKILL", 10.5, 1)]
    assert find_cause(nodes) == (1, "node 1 on b failed: rank 1: killed by SIGKILL")
    told = "rank 0: another rank ended, or the network broke (log line 12)"
    kind = "peer_rank_died_or_network"
    nodes = [
        node("a", "failed", told, 10.0, None, kind),
        node("b", "failed", "has had enough", 10.5, 1),
    ]
    assert find_cause(nodes) == (1, "node 1 on b failed: rank 1: has had enough")
    nodes = [node("a", "failed", "rank 0: out of memory", 11.0), node("b", "failed", "no", 10.0)]
    assert find_cause(nodes) == (1, "node 1 on b failed: no")
    nodes = [node("a", "failed", lost, 10.0), Ended(NodeRun("b", "run"), None, is_reached=False)]
    assert f"; node 1 on b {NOT_REACHED}: {MAY_BE_THE_CAUSE}" in find_cause(nodes).text
