"""torchrun, whose ranks are sessions of their own, out of reach of its group. Needs torch."""

import importlib.util
import os
import re
import signal

import pytest

from runners.host.procfs import is_zombie, marked_processes, parent_of
from runners.state.layout import RunDirectory
from tests.process.conftest import CommandLine, events, leader
from tests.support import eventually

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

# Two ranks that meet once through gloo, then wait; rank 0 ends by itself when the stop file
# appears.
WORKER = """
import os, time
import torch, torch.distributed as dist
def say(line): os.write(1, f"{line}\\n".encode())  # one write: two of them share the file
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
say(f"rank {dist.get_rank()} of {int(total)} pid {os.getpid()}")
stop = torch.zeros(1)
while not stop:
    stop += os.path.exists(os.path.join(os.environ["FRESNEL_RUN_DIR"], "stop.json"))
    dist.all_reduce(stop)
    time.sleep(0.01)
say(f"rank {dist.get_rank()} saved")
"""
# Two ranks of which only their processes are looked at: importing torch takes each two seconds.
WAITING = """
import os, time
os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} pid {os.getpid()}\\n".encode())
time.sleep(600)
"""
PRESET = "launcher: torchrun\ninterpreter: ${python}\nscript: worker.py\nprocesses: 2\ngpus: 0\n"


def pair(cli: CommandLine, ladder: str, worker: str) -> tuple[RunDirectory, list[int]]:
    """A run of two ranks that are there, and their pids."""
    (cli.folder / "worker.py").write_text(worker)
    (cli.folder / "pair.yaml").write_text(f"{PRESET}stop: {{ladder: [{ladder}]}}\n")
    run = cli.launch("./pair.yaml")
    eventually(
        lambda: run.output.read_text().count(" of 2 pid ") == 2,
        ceiling_s=90,
        what="two ranks that are there",
    )
    lines = [line.split() for line in run.output.read_text().splitlines() if " of 2 pid " in line]
    return run, [int(words[-1]) for words in sorted(lines)]


def test_a_stop_file_ends_both_ranks_together(cli: CommandLine) -> None:
    run, ranks = pair(cli, "stop-file 10m, SIGTERM 10m", WORKER)
    assert all(parent_of(rank) == leader(run) and os.getsid(rank) == rank for rank in ranks)
    found = cli.json("stop", run.id, "--wait")
    assert (found["state"], found["exit_code"]) == ("stopped", 0)
    text = run.output.read_text()
    assert "rank 0 saved" in text and "rank 1 saved" in text
    assert [event["rung"] for event in events(run, "stop")] == ["stop-file"]


def test_a_forced_stop_leaves_no_rank(cli: CommandLine) -> None:
    run, ranks = pair(cli, "SIGINT 10m", WAITING)
    cli.run("stop", run.id, "--force", "--wait")
    assert cli.status(run)["state"] == "stopped"
    assert not marked_processes(run.id)
    assert all(is_zombie(rank) for rank in ranks)


def test_a_rank_that_is_killed_fails_the_run_and_nothing_is_left_over(cli: CommandLine) -> None:
    run, ranks = pair(cli, "SIGINT 10m", WAITING)
    os.kill(ranks[1], signal.SIGKILL)
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 1)
    which = re.search(rf"rank (\d) of 2 pid {ranks[1]}\b", run.output.read_text())
    assert which and f"rank {which[1]} failed first: killed by SIGKILL" in found["reason"]
    assert not marked_processes(run.id)
    assert "Signal 9 (SIGKILL)" in run.output.read_text()


REASON = "CUDA error: an illegal memory access was encountered"
FAILING = """
import os, sys, time
rank = int(os.environ["RANK"])
print(f"here is {rank}", flush=True)
if rank == 1:
    raise RuntimeError("REASON")
time.sleep(60)
""".replace("REASON", REASON)


def test_each_rank_above_0_has_its_log_and_the_first_to_fail_is_named(cli: CommandLine) -> None:
    (cli.folder / "worker.py").write_text(FAILING)
    (cli.folder / "pair.yaml").write_text(PRESET)
    run = cli.launch("./pair.yaml")
    found = cli.ended(run)
    text = run.output.read_text()
    assert "\nhere is 0" in f"\n{text}" and "[rank1]:here is 1" in text
    logs = list((run.path / "ranks").rglob("1/stdout.log"))
    assert [log.read_text() for log in logs] == ["here is 1\n"]
    assert found["state"] == "failed"
    ending = found["ending"]
    assert (ending["rank"], ending["rank_code"]) == (1, None)
    assert ending["error"] == f"RuntimeError: {REASON}"
    verdict = cli.json("diagnose", run.id)["diagnosis"]
    assert (verdict["class"], verdict["rank"]) == ("gpu_memory_access_fault", 1)
