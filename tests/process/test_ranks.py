"""The ranks of a run: each one's output, which of them is silent, behind, or failed first."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from runners.health.observer import RunObserver
from runners.state.layout import RunDirectory
from runners.state.rank_processes import processes_of
from runners.state.runs import read_run
from tests.command_text import NO_RANKS
from tests.process.conftest import CommandLine
from tests.support import SLEEPS_IN, eventually

# A launcher of three ranks, as torchrun with a log for each: rank 0 writes to the output.
LAUNCHER = """
import os, subprocess, sys
run = os.environ["FRESNEL_RUN_DIR"]
children = []
for rank in range(3):
    folder = os.path.join(run, "ranks", "none_1", "attempt_0", str(rank))
    os.makedirs(folder)
    out = None if rank == 0 else open(os.path.join(folder, "stdout.log"), "wb")
    children.append(subprocess.Popen([sys.executable, "rank.py"], stdout=out,
                                     env={**os.environ, "RANK": str(rank)}))
for child in children: child.wait()
"""
RANK = """
import os, time
rank = int(os.environ["RANK"])
for step in range(1, 4 if rank == 1 else 8):
    print(f"rank {rank} says step {step} loss 0.5", flush=True)
time.sleep(600)
"""


def test_ranks_are_listed_and_read_one_by_one(cli: CommandLine) -> None:
    (cli.folder / "launcher.py").write_text(LAUNCHER)
    (cli.folder / "rank.py").write_text(RANK)
    run = cli.command(sys.executable, "launcher.py")
    logs = run.path / "ranks" / "none_1" / "attempt_0"
    written = (run.output, logs / "1" / "stdout.log", logs / "2" / "stdout.log")
    for path, step in zip(written, (7, 3, 7), strict=True):
        eventually(
            lambda path=path, step=step: path.exists() and f"step {step} " in path.read_text()
        )
    lines = cli.run("logs", run.id, "--rank", "1").stdout.splitlines()
    assert lines == [f"rank 1 says step {step} loss 0.5" for step in (1, 2, 3)]
    assert cli.run("logs", run.id, "--rank", "0", "-n", "2").stdout.splitlines() == [
        "rank 0 says step 6 loss 0.5", "rank 0 says step 7 loss 0.5"
    ]  # fmt: skip
    ago = time.time() - 900
    os.utime(logs / "1" / "stdout.log", (ago, ago))
    found = eventually(lambda: _asleep(cli, run), what="ranks that have written all they write")
    assert [one["step"] for one in found.values()] == [7, 3, 7]
    assert [one["remark"] for one in found.values()] == ["", "silent", ""]
    live, observer = read_run(cli.state, run.id), RunObserver(read_run(cli.state, run.id), run)
    assert (processes_of(live), observer.observe(live, time.time()).expected_ranks) == (3, 3)
    os.kill(found[2]["pid"], 9)
    eventually(
        lambda: cli.json("logs", run.id, "--ranks")[2]["remark"] == "has ended, while others run"
    )
    assert (processes_of(live), observer.observe(live, time.time()).expected_ranks) == (2, 3)
    assert "silent" in cli.run("logs", run.id, "--ranks").stdout
    problem = cli.run("logs", run.id, "--rank", "7", exits=3).stderr
    assert "rank 7" in problem and "0, 1, 2" in problem


def _asleep(cli: CommandLine, run: RunDirectory) -> dict[int, Any]:
    """The ranks as `logs --ranks` shows them, once all of them sleep."""
    found = {one["rank"]: one for one in cli.json("logs", run.id, "--ranks")}
    return found if all(SLEEPS_IN in one["state"] for one in found.values()) else {}


def test_a_rank_s_lines_are_taken_out_of_what_all_wrote(cli: CommandLine) -> None:
    text = "from rank 0\\n[rank1]:one\\n[rank1]:[rank1]: ValueError: x\\n[rank2]:two\\n"
    run = cli.command("sh", "-c", f'mkdir "$FRESNEL_RUN_DIR/ranks"; printf "{text}"')
    cli.ended(run)
    assert cli.run("logs", run.id, "--rank", "1").stdout == "one\n[rank1]: ValueError: x\n"
    assert cli.run("logs", run.id, "--rank", "0").stdout == "from rank 0\n"
    assert cli.run("logs", run.id, "--rank", "1", "-n", "1").stdout == "[rank1]: ValueError: x\n"
    lines = ["one", "[rank1]: ValueError: x"]
    assert cli.json("logs", run.id, "--rank", "1")["lines"] == lines
    followed = cli.run("logs", run.id, "--rank", "1", "-f", "--json").stdout.splitlines()
    assert [json.loads(line)["text"] for line in followed] == lines


def test_a_rank_s_lines_are_the_same_in_json(cli: CommandLine) -> None:
    """However long they are, whatever stands in them, and though the last has no end yet."""
    run = cli.command("sh", "-c", "exit 0")
    cli.ended(run)
    own = run.path / "ranks" / "none_1" / "attempt_0" / "1" / "stdout.log"
    own.parent.mkdir(parents=True)
    lines = ["1%\r2%", "é" * 800_000, "a\u2028b", "end"]
    own.write_text("\n".join(lines), newline="")
    assert cli.json("logs", run.id, "--rank", "1")["lines"] == lines


def test_a_run_without_ranks_says_so(cli: CommandLine, tmp_path: Path) -> None:
    run = cli.command("echo", "hello")
    cli.ended(run)
    assert f"{run.id} {NO_RANKS}" in cli.run("logs", run.id, "--ranks").stderr
    assert (
        "no line of its output names a rank"
        in cli.run("logs", run.id, "--rank", "0", exits=3).stderr
    )
