"""One run on several nodes: started, told apart, stopped and ended together."""

import json
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from runners.host.procfs import command_of, marked_processes, process_state
from runners.state.layout import RunDirectory
from tests.slurm.cluster import Cluster
from tests.slurm.lab import PATH
from tests.support import eventually

pytestmark = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("accelerate")), reason="needs the train extra"
)
_PROGRAM = """\
import os, signal, sys, time
def end(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, end)
rank = os.environ["RANK"]
print("ready", rank, os.environ["SLURMD_NODENAME"], os.environ["WORLD_SIZE"], flush=True)
if sys.argv[1:] == [rank]:
    sys.exit("wrong data")
time.sleep(600)
"""
_TORCHRUN = """\
import os, subprocess, sys
words = sys.argv[1:]
given = dict(word.lstrip("-").split("=", 1) for word in words if word.startswith("--"))
program = next(i for i, word in enumerate(words) if not word.startswith("-"))
os.environ |= {"RANK": given["node-rank"], "WORLD_SIZE": given["nnodes"]}
print("meets at", given["master-addr"], flush=True)
os.execv(sys.executable, [sys.executable, *words[program:]])
"""
_ACCELERATE = """\
import os, sys
words = sys.argv[1:]
given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
program = next(i for i, word in enumerate(words) if not word.startswith("-"))
assert given["num_processes"] == "4" and "--multi_gpu" in words, words
os.environ |= {"RANK": given["machine_rank"], "WORLD_SIZE": given["num_machines"]}
print("meets at", given["main_process_ip"], flush=True)
os.execv(sys.executable, [sys.executable, *words[program:]])
"""


def _preset(cluster: Cluster, *arguments: str) -> Path:
    """A run on two nodes by a torchrun that starts one rank on each."""
    folder = cluster.line.folder
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True)
    for file in (package / "__init__.py", package.parent / "__init__.py"):
        file.touch()
    (package / "run.py").write_text(_TORCHRUN)
    (folder / "train.py").write_text(_PROGRAM)
    preset = folder / "both.yaml"
    preset.write_text(
        "script: train.py\nlauncher: torchrun\ninterpreter: ${python}\ngpus: 2\nprice: 2\n"
        f"working_directory: .\narguments: {json.dumps(arguments)}\n"
        "stop: {ladder: [SIGINT 20s, SIGKILL 5s]}\nplace: {slurm: {time: 5m}}\n"
    )
    return preset


def _launch(cluster: Cluster, *arguments: str) -> RunDirectory:
    preset = _preset(cluster, *arguments)
    return cluster.line.launch(str(preset), "--nodes", "2")


def _said(run: RunDirectory, rank: int) -> str:
    file: Path = run.of_node(rank) / "output.log"
    return file.read_text() if file.exists() else ""


def test_a_run_on_two_nodes_is_one_run(cluster_of_two: Cluster) -> None:
    """One job, a rank on each node, a log for each, all GPUs counted; a stop reaches both."""
    line, nodes = cluster_of_two.line, cluster_of_two.lab.nodes
    run = _launch(cluster_of_two)
    for rank, node in enumerate(nodes):
        # A line comes in as many pieces as its program writes.
        line_of_it = f"ready {rank} {node} 2\n"
        eventually(lambda r=rank, text=line_of_it: text in _said(run, r), what=line_of_it)
    shown = line.json("status", run.id)
    assert (shown["state"], len(shown["gpus"])) == ("running", 4)
    # $2 for each of four.
    assert shown["would_usd_per_hour"] == 8
    assert f"ready 1 {nodes[1]} 2" in line.run("logs", run.id, "--node", "1").stdout

    def read() -> set[tuple[int, int]]:
        return {(use["node"], use["index"]) for use in line.json("status", run.id)["usage"]}

    eventually(lambda: read() == {(0, 0), (0, 1), (1, 0), (1, 1)}, what="GPUs of both nodes read")
    named = {metric["name"] for metric in line.json("metrics", run.id)["metrics"]}
    assert {"node1/devices/vram", "devices/vram"} <= named
    line.run("stop", run.id)
    ended = line.ended(run)
    assert (ended["state"], ended["exit_code"]) == ("stopped", 0)
    assert all("saved" in _said(run, rank) for rank in (0, 1))
    eventually(lambda: not marked_processes(run.id), what="no process left")


def test_a_node_that_fails_ends_the_others(cluster_of_two: Cluster) -> None:
    """At once, and the run's output says which, and why."""
    run = _launch(cluster_of_two, "1")
    ended = cluster_of_two.line.ended(run)
    assert (ended["state"], ended["exit_code"] != 0) == ("failed", True)
    output = run.output.read_text()
    assert "node 1 failed with exit code 1" in output
    assert "[node 1] wrong data" in output


def test_a_plan_shows_what_starts_on_each_node(cluster_of_two: Cluster) -> None:
    """And one for a launcher that knows only one machine is refused."""
    line = cluster_of_two.line
    plan = line.json("plan", str(_preset(cluster_of_two)), "--nodes", "2")
    assert "#SBATCH --nodes=2" in plan["slurm_script"].splitlines()
    assert {"srun", "--nodes=2", "--nnodes=2", "--node-rank=$SLURM_NODEID"} <= {*plan["argv"]}
    refused = line.run("plan", "--slurm", "--nodes", "2", "--", "true", exits=2)
    assert "torchrun" in refused.stderr


def test_accelerate_on_two_nodes(cluster_of_two: Cluster) -> None:
    """As torchrun: one on each, which meet on the first."""
    line = cluster_of_two.line
    preset = _preset(cluster_of_two)
    package = line.folder / "accelerate" / "commands"
    package.mkdir(parents=True)
    for file in (package / "__init__.py", package.parent / "__init__.py"):
        file.touch()
    (package / "launch.py").write_text(_ACCELERATE)
    preset.write_text(preset.read_text().replace("launcher: torchrun", "launcher: accelerate"))
    run = line.launch(str(preset), "--nodes", "2")
    for rank in (0, 1):
        eventually(lambda r=rank: f"ready {r}" in _said(run, r), what=f"rank {rank}")
    met = {text for r in (0, 1) for text in _said(run, r).splitlines() if "meets" in text}
    assert len(met) == 1
    line.run("stop", run.id)
    assert line.ended(run)["state"] == "stopped"
    assert all("saved" in _said(run, rank) for rank in (0, 1))


def _is_program(argv: Sequence[str]) -> bool:
    return len(argv) == 2 and argv[1].endswith("train.py")


def test_a_pause_reaches_every_node(cluster_of_two: Cluster) -> None:
    """By the job's step: signals of the first node's machine go no further."""
    line = cluster_of_two.line
    run = _launch(cluster_of_two)
    for rank in (0, 1):
        eventually(lambda r=rank: f"ready {r}" in _said(run, r), what=f"rank {rank}")
    tools, real = line.folder / "tools", shutil.which("scancel", path=PATH)
    tools.mkdir()
    (tools / "scancel").write_text(f'#!/bin/sh\necho "$@" >>{tools}/asked\nexec {real} "$@"\n')
    (tools / "scancel").chmod(0o700)
    line.run("pause", run.id, PATH=f"{tools}:{PATH}")
    programs = [pid for pid in marked_processes(run.id) if _is_program(command_of(pid))]
    assert len(programs) == 2
    # Slurm freezes the control group of a step that it is to stop.
    eventually(lambda: {process_state(pid) for pid in programs} <= {"T", "D"}, what="all stopped")
    line.run("continue", run.id, PATH=f"{tools}:{PATH}")
    eventually(lambda: {process_state(pid) for pid in programs} == {"S"}, what="they go on")
    job = str(json.loads(run.job.read_text())["id"])
    assert (tools / "asked").read_text().split() == ["--signal=STOP", job, "--signal=CONT", job]
    line.run("stop", run.id)
    assert line.ended(run)["state"] == "stopped"
