"""The supervisor is killed: the run goes on, is taken over, and its ending is still recorded."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from runners.host import shutdown
from runners.host.locks import is_held
from runners.host.procfs import is_zombie, marked_processes
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.launch import adopt as adopting
from runners.lifecycle.launch import dispatch as dispatching
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.lifecycle.supervisor.program_start import draft_of
from runners.model.errors import ExitCode, FresnelError
from runners.state.layout import RunDirectory
from runners.state.leases import holds_gpus, live_run_ids
from runners.state.runs import read_run
from tests.command_text import NOT_YET_RECORDED, WILL_BE_ADOPTED, is_damaged
from tests.process.conftest import STUBBORN, CommandLine, events, leader, record
from tests.support import eventually
from tui.cli import run_command

PYTHON = (sys.executable, "-S", "-c")
SLOW = ("--set", "stop.ladder=[SIGINT 10m, SIGTERM 10m, SIGKILL 5s]")


def gated(cli: CommandLine, code: int, *options: str) -> tuple[RunDirectory, Path]:
    """A run that ends with `code` once something is written into its gate."""
    gate = cli.folder / "gate"
    os.mkfifo(gate)
    script = (
        f"import sys\nprint('ready', flush=True)\nopen({str(gate)!r}).read()\n"
        f"print('gone on', flush=True)\nsys.exit({code})"
    )
    run = cli.command(*PYTHON, script, options=options, ready="ready")
    eventually(lambda: record(run).get("started"), what="a supervisor that has recorded the start")
    return run, gate


def test_a_supervisor_that_does_not_start_is_no_matter_of_other_runs(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = cli.launch("--gpus", "0", "--name", "done", "--", "true")
    cli.ended(done)
    orphan, gate = gated(cli, 0, "--name", "orphan")
    cli.kill_supervisor(orphan)

    def fail(*_: object) -> None:
        raise FresnelError("the supervisor did not start")

    with monkeypatch.context() as patch:
        patch.setattr(adopting, "spawn_supervisor", fail)
        assert run_command(["delete", done.id]) == 0
    shown = capsys.readouterr()
    assert done.id in shown.out and orphan.id not in shown.out + shown.err
    assert adopt_orphans(cli.state) == [orphan.id], "tried again"
    gate.write_text("go")
    assert cli.ended(orphan)["state"] == "done"


def test_while_the_machine_is_shut_down_nothing_is_adopted_or_started(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is recorded after the boot: a run that survives one would end as failed here."""
    orphan, gate = gated(cli, 0, "--set", "restart.boot=true")
    cli.kill_supervisor(orphan)
    with monkeypatch.context() as patch:
        patch.setattr(shutdown, "what_ends", lambda: "machine")
        assert adopt_orphans(cli.state) == [] and not is_held(orphan.supervisor_lock)
        patch.setattr(dispatching, "waiting", lambda _: ["one that waits"])
        assert dispatching.dispatch(cli.state) == []
    assert adopt_orphans(cli.state) == [orphan.id]
    gate.write_text("go")
    assert cli.ended(orphan)["state"] == "done"


def test_an_orphan_goes_on_and_the_next_command_adopts_it(cli: CommandLine) -> None:
    run, gate = gated(cli, 5)
    first, program = cli.kill_supervisor(run), leader(run)
    orphan = cli.status(run)
    assert orphan["state"] == "orphaned" and WILL_BE_ADOPTED in orphan["reason"]
    cli.run("list")
    eventually(lambda: record(run)["supervisor_pid"] != first)
    adopted = cli.status(run)
    assert (adopted["state"], adopted["started"]) == ("running", orphan["started"])
    assert leader(run) == program and events(run, "adopted")
    gate.write_text("go")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 5)
    assert found["ending"]["line"] == "gone on"
    assert run.output.read_text() == "ready\ngone on\n"


def test_an_ending_without_any_supervisor_is_recorded_afterwards(cli: CommandLine) -> None:
    run, gate = gated(cli, 0)
    cli.kill_supervisor(run)
    gate.write_text("go")
    eventually(run.exit.exists)
    # The waiter has the run's lock for a moment longer than it takes to write that.
    eventually(lambda: not marked_processes(run.id) and not is_held(run.run_lock))
    unrecorded = read_run(cli.state, run.id)
    assert unrecorded.is_live and NOT_YET_RECORDED in unrecorded.reason
    found = cli.json("wait", run.id)
    assert (found["state"], found["exit_code"]) == ("done", 0)
    assert found["ended"] >= found["started"]


def test_an_adopted_run_can_be_stopped(cli: CommandLine) -> None:
    run = cli.command(
        *PYTHON,
        STUBBORN,
        "SIGINT",
        options=["--set", "stop.ladder=[SIGINT 0.1s, SIGTERM 10m]"],
        ready="ready",
    )
    cli.kill_supervisor(run)
    found = cli.json("stop", run.id, "--wait")
    assert (found["state"], found["exit_code"]) == ("stopped", 143)


def test_an_adopted_ladder_goes_on_at_its_rung(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, STUBBORN, "SIGINT", "SIGTERM", options=SLOW, ready="ready")
    request_stop(cli.state, read_run(cli.state, run.id))
    before = eventually(lambda: cli.status(run)["stop"])
    cli.kill_supervisor(run)
    adopt_orphans(cli.state)
    eventually(lambda: events(run, "adopted"))
    found = eventually(lambda: (now := cli.status(run))["state"] == "stopping" and now)
    assert (found["stop"]["step"], found["stop"]["until"]) == (1, before["until"])
    request_stop(cli.state, read_run(cli.state, run.id))
    eventually(lambda: len(events(run, "stop")) == 2)
    assert [event["rung"] for event in events(run, "stop")] == ["SIGINT", "SIGTERM"]
    request_stop(cli.state, read_run(cli.state, run.id))
    assert cli.ended(run)["state"] == "stopped"
    assert [event["rung"] for event in events(run, "stop")] == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_a_stop_asked_while_nobody_supervised_is_carried_out(cli: CommandLine) -> None:
    run = cli.command("sleep", "300", options=SLOW)
    eventually(lambda: cli.status(run)["state"] == "running")
    cli.kill_supervisor(run)
    run.stop.write_text(json.dumps({"time": time.time(), "by": "anna"}))
    adopt_orphans(cli.state)
    found = cli.ended(run)
    assert (found["state"], found["reason"]) == ("stopped", "stopped by anna")


def test_ten_commands_adopt_one_orphan_once(cli: CommandLine) -> None:
    run, gate = gated(cli, 0)
    cli.kill_supervisor(run)
    for child in [cli.begin("list") for _ in range(10)]:
        child.communicate()
        assert child.returncode == 0
    eventually(lambda: events(run, "adopted"))
    assert len(events(run, "adopted")) == 1
    gate.write_text("go")
    assert cli.ended(run)["state"] == "done"


def test_supervisors_killed_again_and_again_lose_nothing(cli: CommandLine) -> None:
    run, gate = gated(cli, 3)
    for number in range(1, 6):
        cli.kill_supervisor(run)
        adopt_orphans(cli.state)
        eventually(lambda number=number: len(events(run, "adopted")) == number)
    gate.write_text("go")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 3)


def waiter_of(run: RunDirectory) -> int:
    """The pid of the shell between supervisor and program."""
    return eventually(lambda: record(run).get("waiter_pid"))


def test_without_its_waiter_the_supervisor_still_knows_how_the_program_ended(
    cli: CommandLine,
) -> None:
    run, gate = gated(cli, 6)
    waiter = waiter_of(run)
    os.kill(waiter, signal.SIGKILL)
    # Not before it is dead: a waiter that is about to die may still take the status along.
    eventually(lambda: is_zombie(waiter))
    gate.write_text("go")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 6)
    assert run.output.read_text() == "ready\ngone on\n"


def test_a_waiter_killed_after_it_wrote_the_exit_status_has_told_it(cli: CommandLine) -> None:
    """It was killed before it named the file, and there was no supervisor to take the status."""
    run, gate = gated(cli, 6)
    waiter = waiter_of(run)
    cli.kill_supervisor(run)
    os.kill(waiter, signal.SIGKILL)
    gate.write_text("go")
    eventually(lambda: not marked_processes(run.id))
    Path(draft_of(run.exit)).write_text("6\n")
    cli.run("list")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 6)


def test_without_supervisor_and_waiter_the_program_goes_on_and_its_code_is_unknown(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    gate = cli.folder / "gate"
    os.mkfifo(gate)
    run = cli.launch("--gpus", "1", "--", "sh", "-c", f"echo ready; cat '{gate}'; echo gone on")
    eventually(lambda: "ready" in run.output.read_text())
    waiter = waiter_of(run)
    cli.kill_supervisor(run)
    os.kill(waiter, signal.SIGKILL)
    assert holds_gpus(run)
    denied = cli.run("launch", "--no-queue", "--gpus", "1", "--", "true", exits=4)
    assert run.id in denied.stderr, "its lease stands while it lives"
    assert cli.status(run)["state"] in ("orphaned", "running")
    gate.write_text("go\n")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"], found["ending"]["line"]) == (
        "unseen",
        None,
        "gone on",
    )
    assert run.output.read_text() == "ready\ngo\ngone on\n"
    cli.run("launch", "--no-queue", "--gpus", "1", "--wait", "--", "true")


def test_what_the_program_announced_is_its_ending_when_nobody_saw_it(cli: CommandLine) -> None:
    """As the trainers do: the exit code and its own pid, in the last event."""
    gate = cli.folder / "go"
    program = (
        "import json, os, sys, time\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
        "event = {'time': time.time(), 'type': 'end', 'code': 3, 'pid': os.getpid()}\n"
        "open(os.environ['FRESNEL_RUN_DIR'] + '/events.jsonl', 'a').write(json.dumps(event))\n"
        "sys.exit(3)\n"
    )
    run = cli.command(sys.executable, "-S", "-c", program)
    eventually(lambda: cli.status(run)["state"] == "running")
    waiter = waiter_of(run)
    cli.kill_supervisor(run)
    os.kill(waiter, signal.SIGKILL)
    gate.touch()
    eventually(lambda: not holds_gpus(run), what="its end")
    cli.run("list")  # whoever looks adopts it
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", None)
    assert (found["ending"]["cause"], found["ending"]["announced"]) == ("failed", 3)


def test_without_supervisor_and_waiter_a_stop_still_works(cli: CommandLine) -> None:
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    waiter = waiter_of(run)
    cli.kill_supervisor(run)
    os.kill(waiter, signal.SIGKILL)
    found = cli.json("stop", run.id, "--force", "--wait")
    assert found["state"] == "stopped"
    assert not marked_processes(run.id)


def test_all_three_killed_is_a_lost_run(cli: CommandLine) -> None:
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    waiter, program = waiter_of(run), leader(run)
    cli.kill_supervisor(run)
    os.kill(waiter, signal.SIGKILL)
    os.kill(program, signal.SIGKILL)
    eventually(lambda: not holds_gpus(run))
    assert cli.status(run)["state"] == "lost"
    found = cli.json("wait", run.id, exits=1)
    assert (found["state"], found["reason"]) == ("lost", "ended, exit code unknown")


def test_a_rebooted_host_s_runs_are_lost_and_say_so(cli: CommandLine) -> None:
    run = cli.command("true")
    cli.ended(run)
    written = record(run) | {
        "state": "running",
        "boot_id": "of another boot",
        "ended": None,
        "exit_code": None,
    }
    run.state.write_text(json.dumps(written))
    run.exit.unlink()
    cli.state.live_marker(run.id).touch()
    found = cli.json("wait", run.id, exits=1)
    assert found["state"] == "lost" and found["reason"].startswith("host restarted 20")


def test_an_orphan_of_another_host_is_not_adopted_here(cli: CommandLine) -> None:
    run = cli.command("sleep", "300", FRESNEL_HOST="box-a")
    eventually(lambda: cli.status(run)["state"] == "running")
    cli.kill_supervisor(run)
    before = run.state.read_bytes()
    for words in (
        ["list"],
        ["status", run.id],
        ["gpus"],
        ["launch", "--gpus", "0", "--wait", "--", "true"],
    ):
        cli.run(*words, FRESNEL_HOST="box-b")
    assert run.state.read_bytes() == before and not events(run, "adopted")
    assert not is_held(run.supervisor_lock)
    cli.run("stop", run.id, "--force", "--wait", FRESNEL_HOST="box-a")
    assert cli.status(run)["state"] == "stopped"


@pytest.mark.parametrize("has_ended", [False, True])
def test_nobody_waits_for_an_ending_that_nobody_may_record(
    cli: CommandLine, has_ended: bool
) -> None:
    run, gate = gated(cli, 0)
    cli.kill_supervisor(run)
    run.path.chmod(0o770)
    if has_ended:
        gate.write_text("go")
        eventually(lambda: not holds_gpus(run), what="an ended program")
    said = cli.run("wait", run.id, exits=ExitCode.DENIED).stderr
    assert str(run.path) in said and "0770" in cli.status(run)["reason"]
    run.path.chmod(0o700)
    if not has_ended:
        gate.write_text("go")
    assert cli.run("wait", run.id).stderr


@pytest.mark.parametrize("damage", [b"", b"{", b'{"state": "run'])
def test_a_damaged_record_of_a_live_run_is_mended(cli: CommandLine, damage: bytes) -> None:
    run, gate = gated(cli, 4)
    run.state.write_bytes(damage)
    assert cli.run("list").returncode == 0
    assert cli.json("status", run.id)["state"] in ("starting", "running")
    gate.write_text("go")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 4)


def test_a_damaged_record_of_an_orphan_is_mended_too(cli: CommandLine) -> None:
    run, gate = gated(cli, 4)
    cli.kill_supervisor(run)
    run.state.write_bytes(b"{")
    assert cli.status(run)["state"] == "orphaned"
    adopt_orphans(cli.state)
    eventually(lambda: events(run, "adopted"))
    gate.write_text("go")
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("failed", 4)


def test_a_supervisor_whose_run_was_removed_leaves(cli: CommandLine) -> None:
    run, gate = gated(cli, 0)
    supervisor = eventually(lambda: record(run).get("supervisor_pid"))
    # In one step: what is written there meanwhile would be in the way of removing it.
    shutil.rmtree(run.path.rename(cli.folder / "removed"))
    gate.write_text("go")
    eventually(lambda: is_zombie(supervisor), what="the supervisor gone")
    cli.run("list")
    assert not live_run_ids(cli.state)


def test_a_damaged_record_of_an_ended_run_is_said_so_and_nobody_waits_for_ever(
    cli: CommandLine,
) -> None:
    run = cli.command("sh", "-c", "exit 2")
    cli.ended(run)
    # Until its supervisor has left, a run without a record is one that starts.
    eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor's lock free")
    run.state.write_bytes(b"")
    assert is_damaged("state.json") in cli.run("list").stdout
    found = cli.json("wait", run.id, exits=1)
    assert (found["state"], found["ending"]["damaged"]) == ("failed", True)
    assert f"{is_damaged('state.json')}, exit code 2" in found["reason"]
