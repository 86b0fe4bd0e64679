"""One program over two rented machines: they find each other, and end together."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest

from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine, free_port

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


@pytest.fixture
def both(line: CommandLine, rent: Callable[..., RentedMachine]) -> list[RentedMachine]:
    """Two machines, `a` and `b`, with the preset and its program."""
    machines = [rent("a"), rent("b")]
    for machine in machines:
        add(line, machine)
        folder = machine.home / "fresnel"
        (folder / "presets").mkdir(parents=True)
        (folder / "presets" / "both.yaml").write_text(PRESET)
        (folder / "both.py").write_text(PROGRAM)
    return machines


@pytest.mark.trainers
@pytest.mark.skipif(find_spec("torch") is None, reason="no torch here")
def test_two_machines_compute_together_and_end_together(
    line: CommandLine, both: list[RentedMachine]
) -> None:
    (line.folder / "presets").mkdir()
    words = f"nodes: {{hosts: [a, b], port: {free_port()}}}\n"
    (line.folder / "presets" / "both.yaml").write_text(PRESET + words)
    started = line.json("launch", "both", "--set", "fails=1")
    assert [node["host"] for node in started["nodes"]] == ["a", "b"]
    waiting = line.begin("nodes", "wait", "last")
    shown, said = (stream.decode() for stream in waiting.communicate(timeout=100))
    assert waiting.returncode == 1, said
    assert "node 1 on b failed" in said and "has had enough" in said
    assert "running" not in shown
    for machine, node in zip(both, started["nodes"], strict=True):
        output = (machine.state / "runs" / node["run"] / "output.log").read_text()
        assert "sum 3 of 2" in output


def test_all_or_none(line: CommandLine, both: list[RentedMachine]) -> None:
    (both[1].home / "fresnel" / "both.py").unlink()
    port = ("--master-port", str(free_port()))
    refused = line.run("launch", "both", "--hosts", "a,b", *port, exits=2).stderr
    assert "fresnel-tui: b: " in refused and "script: no file" in refused
    assert "nothing was started" in refused
    assert line.json("list", "--host", "a") == []
