"""Processes of ours that are killed at bad moments: nothing is lost, doubled, or half there."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
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


KILLS = 16
"""`make kills` does a thousand, of every kind of process."""


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
import os, signal, sys
from pathlib import Path
from runners.lifecycle.supervisor import program_start, supervisor
kills = int(sys.argv.pop(1))
def deadly(_, run):
    count = Path(f"{run}.kills")
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    if number < kills:
        os.kill(os.getpid(), signal.SIGKILL)
program_start._set_command_line = deadly
supervisor.main()
"""

# The supervisor, whose first waiter is killed at the N-th line of waiting for its program and of
# what it does then; with fewer lines it is not killed.
KILLED_AT_THE_END = """
import os, signal, sys
from contextlib import suppress
from pathlib import Path
from runners.lifecycle.supervisor import program_start, supervisor
line = int(sys.argv.pop(1))
def trace(frame, event, _):
    global line
    if frame.f_code is not program_start._record_status.__code__:
        return None
    if event == "line":
        line -= 1
        if line == 0:
            with suppress(FileExistsError):
                Path(frame.f_locals["exit_file"] + ".killed").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
    return trace
sys.settrace(trace)
supervisor.main()
"""

# The supervisor is killed before it records that a program will start, or just after that.
KILLED_AT_THE_START = """
import os, signal, sys
from runners.lifecycle.supervisor import supervisor
from runners.lifecycle.supervisor.attempt_start import AttemptStarter
after = int(sys.argv.pop(1))
note = AttemptStarter.note_starting
def deadly(self, number, waiter):
    if after:
        note(self, number, waiter)
    os.kill(os.getpid(), signal.SIGKILL)
AttemptStarter.note_starting = deadly
supervisor.main()
"""


# The supervisor, which is killed when its program has begun, and nothing of that is recorded yet.
KILLED_ONCE_IT_HAS_BEGUN = """
import os, signal, sys
from runners.lifecycle.supervisor import attempt_start, supervisor
sys.argv.pop(1)
attempt_start.own_scope = lambda run_id: os.kill(os.getpid(), signal.SIGKILL)
supervisor.main()
"""

# What a Slurm job that is begun anew does with its run: the attempt that it would start.
BEGUN_ANEW = """
import sys
from runners.host.files import read_json
from runners.lifecycle.supervisor.attempt_start import AttemptStarter
from runners.lifecycle.supervisor.record_keeper import RecordKeeper
from runners.state.layout import RunDirectory
from runners.state.records import record_fields
def told(self, number):
    print(number, self.directory.leader.exists(), bool(self.keeper.record.get("started")))
AttemptStarter.wait_and_start = told
run = RunDirectory.at(sys.argv[1])
AttemptStarter(run, RecordKeeper(run, record_fields(read_json(run.state))), []).begin()
"""


def test_a_job_killed_before_it_recorded_that_its_program_had_begun_starts_another_attempt(
    cli: CommandLine, run_with: Callable[..., RunDirectory]
) -> None:
    run = run_with(KILLED_ONCE_IT_HAS_BEGUN, 0, "echo hi")
    eventually(lambda: not is_held(run.supervisor_lock) and run.exit.exists())
    words = [sys.executable, "-c", BEGUN_ANEW, str(run.path)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False", "True"]
    assert not run.exit.exists() and (run.path / "output.1.log").read_text() == "hi\n"


@pytest.mark.parametrize(("kills", "state"), [(2, "done"), (9, "lost")])
def test_a_program_whose_waiter_is_killed_before_it_begins_is_started_again(
    cli: CommandLine,
    run_with: Callable[[str, int, str], RunDirectory],
    kills: int,
    state: str,
) -> None:
    run = run_with(UNLUCKY, kills, "echo hi")
    found = cli.ended(run)
    assert (found["state"], found["attempt"]) == (state, 1)
    assert run.output.read_text() == ("hi\n" if state == "done" else "")


@pytest.mark.parametrize("line", range(1, 13))
def test_at_whichever_line_a_waiter_is_killed_the_exit_status_is_known(
    cli: CommandLine, run_with: Callable[[str, int, str], RunDirectory], line: int
) -> None:
    found = cli.ended(run_with(KILLED_AT_THE_END, line, "echo hi; exit 6"))
    assert (found["state"], found["exit_code"]) == ("failed", 6)


@pytest.mark.parametrize("after", [0, 1])
def test_a_supervisor_killed_while_it_starts_a_program_has_it_started_once(
    cli: CommandLine, run_with: Callable[[str, int, str], RunDirectory], after: int
) -> None:
    run = run_with(KILLED_AT_THE_START, after, "echo hi; exit 6")
    eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor killed")
    cli.run("list")  # whoever looks adopts it
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 6)
    assert run.output.read_text() == "hi\n"


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


def test_kills_at_random_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    monkeypatch.chdir(REPOSITORY)
    report = kill_at_random(tmp_path / "kills", KILLS, seed=23, every_s=0.2)
    assert not report.wrong, "\n".join(report.lines())
    assert sum(report.kills.values()) == KILLS and report.endings["done"]


def _kept(ids: list[str]) -> list[str]:
    folder = Path(f"/dev/shm/fresnel-tui-{os.getuid()}")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if any(name.startswith(run_id) for run_id in ids)]


def test_guards_and_keepers_that_are_killed_act_once(tmp_path: Path) -> None:
    # How late they act is measured by the bench: here it is how busy the machine is.
    report = kill_guards(tmp_path, kills=12, seed=11, in_time_s=float("inf"))
    assert not report.wrong, "\n".join(report.lines())


KILLED_WHILE_IT_STARTS_A_HELPER = """
import os, signal, sys
from pathlib import Path
from runners.host import helpers
from runners.host.locks import acquire
acquire(Path(sys.argv[1]))
def deadly(*_):
    os.kill(os.getpid(), signal.SIGKILL)
helpers.no_subreaper = deadly
helpers.spawn("keeper", sys.argv[2])
"""


def test_a_process_killed_while_it_starts_a_helper_leaves_no_holder_of_its_lock(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "lock"
    program = [sys.executable, "-c", KILLED_WHILE_IT_STARTS_A_HELPER, str(lock), str(tmp_path)]
    assert subprocess.run(program, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL
    eventually(lambda: not is_held(lock), what="the lock free")
