"""No process of a run is lost sight of: without its mark, parents or supervisor."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.host.procfs import command_of, is_zombie, start_ticks
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.state.layout import RunDirectory
from runners.state.leases import held_leases
from tests.process.conftest import COMMAND, CommandLine, events, leader, record
from tests.support import eventually

# Each leaves a `sleep` behind that has no mark; the last closes the run's lock and its output too.
_CLOSED = "import os; os.closerange(0, 256); os.execve('/bin/sleep', ['sleep', '{n}'], {{}})"
ESCAPES = {
    "setsid env -i": "setsid env -i sleep {n} & sleep 1",
    "unset": "unset FRESNEL_RUN_ID; (exec sleep {n}) & sleep 1",
    "nothing inherited": f'setsid env -i {sys.executable} -c "{_CLOSED}" & sleep 1',
}


def _alive(number: int) -> list[int]:
    """The pids of `sleep NUMBER`."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    words = ["sleep", str(number)]
    return [pid for pid in pids if command_of(pid) == words and not is_zombie(pid)]


@pytest.fixture
def number() -> int:
    """Seconds that no other test sleeps."""
    return 200_000 + int.from_bytes(os.urandom(2), "big")


@pytest.mark.parametrize("how", ESCAPES)
def test_what_a_run_leaves_behind_without_its_mark_ends_with_it(
    cli: CommandLine, number: int, how: str
) -> None:
    run = cli.launch("--gpus", "0", "--", "sh", "-c", ESCAPES[how].format(n=number))
    assert cli.ended(run)["state"] == "done"
    assert not _alive(number)
    assert events(run, "left over")


@pytest.mark.parametrize("how", ESCAPES)
def test_a_stop_ends_what_has_no_mark(cli: CommandLine, number: int, how: str) -> None:
    script = ESCAPES[how].format(n=number).replace("& sleep 1", "& echo up; exec sleep 600")
    run = cli.command("sh", "-c", script, ready="up")
    eventually(lambda: _alive(number))
    cli.run("stop", run.id, "--wait")
    assert not _alive(number)


@pytest.mark.parametrize("how", ESCAPES)
def test_an_adopter_knows_what_has_no_mark(cli: CommandLine, number: int, how: str) -> None:
    script = ESCAPES[how].format(n=number).replace("& sleep 1", "& echo up; exec sleep 600")
    run = cli.command("sh", "-c", script, ready="up")
    (pid,) = eventually(lambda: _alive(number))
    eventually(lambda: pid in dict(record(run).get("followed") or ()), what="it recorded")
    cli.kill_supervisor(run)
    os.kill(leader(run), signal.SIGKILL)
    adopt_orphans(cli.state)
    eventually(lambda: not _alive(number), what="the program's orphan ended by the adopter")
    cli.ended(run)


# The supervisor, which goes on from a signal to what a program left behind when it has been looked at.
LOOKED_AT = """
import sys, time
from pathlib import Path
from runners.lifecycle.supervisor import attempt, supervisor
looked = Path(sys.argv[2], "looked")
signalled = attempt.signal_process
def held(*given):
    signalled(*given)
    while not looked.exists():
        time.sleep(0.01)
attempt.signal_process = held
sys.argv.pop(1)
supervisor.main()
"""


def test_a_gpu_is_leased_while_a_process_without_mark_is_alive(
    cli: CommandLine,
    number: int,
    run_with: Callable[..., RunDirectory],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    # A rank that ignores SIGTERM, orphaned and without a mark.
    rank = f"trap : TERM; touch deaf; while :; do sleep {number}; done"
    shell = f"setsid env -i sh -c '{rank}' & until [ -e deaf ]; do sleep 0.05; done"
    run = run_with(LOOKED_AT, 0, shell, "gpus=1")
    eventually(lambda: events(run, "left over"), what="the supervisor ending what is left")
    assert [lease.run for held in held_leases(cli.state).values() for lease in held] == [run.id]
    (cli.state.root / "looked").touch()
    assert cli.ended(run)["state"] == "done"
    assert [event["signal"] for event in events(run, "left over")] == ["SIGTERM", "SIGKILL"]
    assert not held_leases(cli.state) and not _alive(number)


def test_a_run_launched_from_within_a_run_goes_its_own_way(
    cli: CommandLine, tmp_path: Path
) -> None:
    inner = f"{shlex.join(COMMAND)} launch --gpus 0 -- sleep 600 >{tmp_path}/inner"
    outer = cli.launch("--gpus", "0", "--", "sh", "-c", inner, PYTHONPATH=str(Path.cwd()))
    assert cli.ended(outer)["state"] == "done"
    run = cli.state.run((tmp_path / "inner").read_text().strip())
    assert cli.status(run)["state"] == "running" and not events(outer, "left over")


def test_a_reader_of_the_output_is_no_part_of_the_run(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    with subprocess.Popen(["tail", "-f", run.output], stdout=subprocess.DEVNULL) as reader:
        cli.run("stop", run.id, "--force", "--wait")
        assert reader.poll() is None
        reader.kill()


def test_processes_that_would_not_go_keep_the_lease_of_an_ended_run(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    cli.run("stop", run.id, "--force", "--wait")
    # As a supervisor leaves it behind: ended, but a process would not go.
    stuck = subprocess.Popen(["sleep", "600"])
    try:
        plan = json.loads(run.plan.read_text())
        plan["gpus"] = [{"index": 0, "uuid": "GPU-0", "name": "H100", "logical": 0}]
        run.plan.write_text(json.dumps(plan))
        followed = [[stuck.pid, start_ticks(stuck.pid)]]
        run.state.write_text(json.dumps({**record(run), "followed": followed}))
        cli.state.held_marker(run.id).touch()
        assert "GPU-0" in held_leases(cli.state)
        checks = {check["name"]: check for check in cli.json("doctor", exits=None)}
        assert str(stuck.pid) in checks["left over"]["message"]
    finally:
        stuck.kill()
        stuck.wait()
    assert not held_leases(cli.state) and not cli.state.held_marker(run.id).exists()
