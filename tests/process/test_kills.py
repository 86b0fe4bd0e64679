"""Processes of ours that are killed at bad moments: nothing is lost, doubled, or half there."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runners.host.locks import is_held
from runners.lifecycle.control import start
from runners.lifecycle.control.start import start_together
from runners.presets.load import command_spec
from runners.state.layout import RunDirectory
from runners.state.runs import list_run_ids
from tests.bench.guard_kills import kill_guards
from tests.bench.kills import kill_at_random
from tests.process.conftest import CommandLine
from tests.support import REPOSITORY, eventually

# Launches three runs together; the process ends by SIGKILL at the N-th call of a function.
LAUNCHER = """
import os, signal, sys
from runners.host.locks import is_held
from runners.lifecycle.control import start
from runners.lifecycle.launch import unfinished
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
module, name, deadly = sys.argv[1], sys.argv[2], int(sys.argv[3])
place = {"start": start, "unfinished": unfinished}[module]
real, calls = getattr(place, name), 0
def counted(*given):
    global calls
    calls += 1
    if calls == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)
setattr(place, name, counted)
spec = command_spec(["sh", "-c", "echo hi"], ["gpus=0"])
start.start_together(StateDirectory().create(), [spec, spec, spec])
"""

KILLED_AT_THE_FIRST_MARK = """
import os, signal
from pathlib import Path
from runners.lifecycle.control.start import start_together
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
touch = Path.touch
def deadly(path, *given, **named):
    touch(path, *given, **named)
    if path.parent.name == "live":
        os.kill(os.getpid(), signal.SIGKILL)
Path.touch = deadly
spec = command_spec(["sh", "-c", "echo hi"], ["gpus=0"])
start_together(StateDirectory().create(), [spec, spec, spec])
"""


@pytest.mark.parametrize(
    ("module", "name", "deadly", "runs"),
    [
        ("start", "_write", 1, 0),
        ("start", "_write", 3, 0),
        ("start", "keep_environment", 2, 0),
        ("unfinished", "_mark", 1, 0),
        ("start", "wake", 1, 3),
        ("start", "_supervise", 1, 3),
        ("start", "_supervise", 3, 3),
    ],
)
def test_a_launch_that_is_killed_makes_all_its_runs_or_none(
    cli: CommandLine, module: str, name: str, deadly: int, runs: int
) -> None:
    words = [sys.executable, "-c", LAUNCHER, module, name, str(deadly)]
    done = subprocess.run(words, cwd=cli.folder, env=cli.environment({}), check=False)
    assert done.returncode == -signal.SIGKILL
    cli.run("list")  # whoever comes next
    ids = list_run_ids(cli.state)
    assert len(ids) == runs
    assert [cli.ended(cli.state.run(run_id))["state"] for run_id in ids] == ["done"] * runs
    assert [cli.state.run(run_id).output.read_text() for run_id in ids] == ["hi\n"] * runs
    assert not list(cli.state.launching.iterdir())
    assert not _kept(ids), "an environment is left in memory"


def test_a_launch_that_is_killed_while_it_marks_its_runs_is_completed(cli: CommandLine) -> None:
    words = [sys.executable, "-c", KILLED_AT_THE_FIRST_MARK]
    done = subprocess.run(words, cwd=cli.folder, env=cli.environment({}), check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(cli.state.live.iterdir())) == 1
    cli.run("list")
    ids = list_run_ids(cli.state)
    assert [cli.ended(cli.state.run(run_id))["state"] for run_id in ids] == ["done"] * 3


# The supervisor, whose waiters are killed before they start the program: as many as are asked for.
UNLUCKY = """
import sys
from runners.lifecycle.supervisor import program_start, supervisor
kills = int(sys.argv.pop(1))
program_start.WAITER = (
    'number=$(cat "$1.kills" 2>/dev/null || echo 0)\\n'
    f'if [ "$number" -lt {kills} ]; then echo $((number + 1)) >"$1.kills"; kill -9 $$; fi\\n'
) + program_start.WAITER
supervisor.main()
"""


@pytest.mark.parametrize(("kills", "state"), [(2, "done"), (9, "lost")])
def test_a_program_whose_waiter_is_killed_before_it_begins_is_started_again(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, kills: int, state: str
) -> None:
    def spawn(run: RunDirectory, environment: dict[str, str], locks: Sequence[int]) -> None:
        words = [str(kills), str(run.home.root), run.id, *map(str, locks)]
        subprocess.run(
            [sys.executable, "-c", UNLUCKY, *words],
            env={**environment, **cli.environment({}), "FRESNEL_HELPER": "supervisor"},
            pass_fds=locks,
            check=True,
        )

    monkeypatch.chdir(cli.folder)
    monkeypatch.setattr(start, "spawn_supervisor", spawn)
    (run,) = start_together(cli.state, [command_spec(["sh", "-c", "echo hi"], ["gpus=0"])])
    found = cli.ended(cli.state.run(run.id))
    assert (found["state"], found["attempt"]) == (state, 1)
    output = cli.state.run(run.id).output.read_text()
    assert output == ("hi\n" if state == "done" else "")


def test_a_launch_that_fails_halfway_leaves_nothing(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.chdir(cli.folder)
    monkeypatch.setattr(start, "reserve", full)
    with pytest.raises(OSError, match="no space left"):
        start_together(cli.state, [command_spec(["true"], ["gpus=0"])])
    assert not list_run_ids(cli.state) and not list(cli.state.launching.iterdir())


def test_thirty_kills_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    monkeypatch.chdir(REPOSITORY)
    report = kill_at_random(tmp_path / "kills", 30, seed=23, every_s=0.3)
    assert not report.wrong, "\n".join(report.lines())
    assert sum(report.kills.values()) == 30 and report.endings["done"]


def _kept(ids: list[str]) -> list[str]:
    folder = Path(f"/dev/shm/fresnel-tui-{os.getuid()}")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if any(name.startswith(run_id) for run_id in ids)]


def test_guards_and_keepers_that_are_killed_act_once_and_in_time(tmp_path: Path) -> None:
    report = kill_guards(tmp_path, kills=20, seed=11)
    assert not report.wrong, "\n".join(report.lines())


KILLED_WHILE_IT_STARTS_A_HELPER = """
import os, signal, sys
from pathlib import Path
from runners.host import helpers
from runners.host.locks import acquire
acquire(Path(sys.argv[1]))
helpers.no_subreaper = lambda: os.kill(os.getpid(), signal.SIGKILL)
helpers.spawn("keeper", sys.argv[2])
"""


def test_a_process_killed_while_it_starts_a_helper_leaves_no_holder_of_its_lock(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "lock"
    program = [sys.executable, "-c", KILLED_WHILE_IT_STARTS_A_HELPER, str(lock), str(tmp_path)]
    assert subprocess.run(program, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL
    eventually(lambda: not is_held(lock), what="the lock free")
