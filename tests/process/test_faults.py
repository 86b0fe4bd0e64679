"""What kills helpers does not kill runs: random SIGKILLs, damaged files, a clock that jumps."""

import os
import random
import select
import signal
import sys
from pathlib import Path

import pytest

from runners.host.locks import is_held
from runners.state.layout import RunDirectory
from runners.state.leases import held_leases
from runners.state.runs import read_run
from tests.process.conftest import CommandLine, record
from tests.support import eventually
from tests.terminal import Terminal, panel_command

KILLS = 60
# Counts until it is told that enough was killed: on a slow machine that takes its time.
COUNTER = """
import itertools, os, time
for i in itertools.count():
    print(i, flush=True)
    if os.path.exists("enough"): break
    time.sleep(0.05)
print("all", flush=True)
"""


def test_kills_lose_no_line_no_ending_and_no_lease(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xH100")
    chance = random.Random(7)
    runs = [cli.launch("--gpus", "1", "--", sys.executable, "-c", COUNTER) for _ in range(8)]
    panels: list[Terminal] = []
    kills = {"supervisor": 0, "command": 0, "panel": 0}
    while sum(kills.values()) < KILLS:
        what = chance.choices(("supervisor", "command", "panel"), (6, 3, 1))[0]
        kills[what] += _kill(what, cli, runs, panels, chance)
        leases = held_leases(cli.state)
        going = {run.id for run in runs if not read_run(cli.state, run.id).is_live}
        for run in runs:
            mine = [lease for held in leases.values() for lease in held if lease.run == run.id]
            assert run.id in going or len(mine) == 1, f"{run.id} holds {mine} after {kills}"
        assert all(len(held) == 1 for held in leases.values()), leases
    for panel in panels:
        panel.close()
    (cli.folder / "enough").touch()
    ended = [cli.ended(run) for run in runs]
    complete = sum(_is_complete(run.output.read_text().splitlines()) for run in runs)
    known = sum((run["state"], run["exit_code"]) == ("done", 0) for run in ended)
    print(
        f"SIGKILLs: {kills}; outputs complete {complete} of 8; endings recorded with exit "
        f"code {known} of 8"
    )
    assert (complete, known) == (8, 8)
    assert not held_leases(cli.state)


def _is_complete(lines: list[str]) -> bool:
    return lines == [*map(str, range(len(lines) - 1)), "all"]


def _kill(
    what: str,
    cli: CommandLine,
    runs: list[RunDirectory],
    panels: list[Terminal],
    chance: random.Random,
) -> int:
    if what == "supervisor":
        run = chance.choice(runs)
        pid = record(run).get("supervisor_pid")
        if not pid or not is_held(run.supervisor_lock):
            # Nobody supervises it since the last kill: any command adopts it.
            cli.run("list")
            return 0
        return _kill_if(pid, "supervisor.py")
    if what == "command":
        child = cli.begin(
            *chance.choice((("list",), ("cost",), ("status", runs[0].id), ("wait", runs[1].id)))
        )
        # At some moment of its first tenth of a second, or when it begins to answer.
        select.select([child.stdout], [], [], chance.random() / 10)
        child.kill()
        child.communicate()
        return 1
    panels.append(Terminal(panel_command()))
    panels[-1].wait_for("Runs")
    os.kill(panels[-1].child.pid, signal.SIGKILL)
    return 1


def _kill_if(pid: int, name: str) -> int:
    try:
        if name.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return 0
    return 1


def test_a_child_that_writes_hundreds_of_megabytes_without_a_newline(cli: CommandLine) -> None:
    script = "import os\nblock = b'x' * (1 << 20)\nfor _ in range(256): os.write(1, block)\n"
    run = cli.launch("--gpus", "0", "--", sys.executable, "-c", script)
    assert cli.ended(run)["state"] == "done"
    assert run.output.stat().st_size == 256 << 20
    shown = cli.begin("logs", "-n", "1", run.id)
    assert shown.stdout is not None
    assert sum(len(block) for block in iter(lambda: shown.stdout.read(1 << 20), b"")) == 256 << 20
    run.output.unlink()


def test_wall_clock_set_back_while_it_runs(cli: CommandLine) -> None:
    """A record from the future: times never make a run end, and no age is negative."""
    run = cli.command("sh", "-c", "echo up; sleep 300", ready="up")
    cli.kill_supervisor(run)
    text = run.state.read_text()
    started = record(run)["started"]
    run.state.write_text(text.replace(str(started), str(started + 86400)))
    cli.run("list")
    view = eventually(lambda: (found := cli.status(run))["state"] == "running" and found)
    assert 0 < view["seconds"] < 3600, "counted by the time since boot, which no clock changes"
    cli.run("stop", run.id, "--wait")
    assert cli.status(run)["state"] == "stopped"
