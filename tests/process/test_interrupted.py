"""A supervisor killed while its run waits, or between attempts, loses nothing; nor does damage make
a run that cannot be stopped, nor a signal reach a process that is not ours.
"""

import json
import os
import signal
import subprocess
import sys

import pytest

from runners.host.locks import is_held
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.lifecycle.supervisor.spawn import poke_supervisor, supervisor_of
from runners.model.states import State
from runners.state.leases import held_leases
from runners.state.runs import read_run
from tests.command_text import GOES_ON_WAITING, transition
from tests.process.conftest import CommandLine, events, leader, record
from tests.support import eventually

DAMAGES = [
    {"state": "paused"},
    {"state": 3},
    {"attempt": "x"},
    {"stop": {"step": "many"}},
    {"waiter_pid": "me"},
    {"started": "yesterday"},
    {"followed": [1, "two"]},
]


def test_a_queued_run_goes_on_waiting_under_its_adopter(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    first = cli.launch("--gpus", "1", "--", "sleep", "600")
    script = "echo $WANDB_API_KEY $CUDA_VISIBLE_DEVICES; pwd"
    second = cli.launch("--gpus", "1", "--", "sh", "-c", script, WANDB_API_KEY="from the launch")
    for number in (1, 2):
        cli.kill_supervisor(second)
        found = read_run(cli.state, second.id)
        assert found.is_live and found.state is State.QUEUED and GOES_ON_WAITING in found.reason
        adopt_orphans(cli.state)
        eventually(lambda number=number: len(events(second, "adopted")) == number)
        eventually(lambda: record(second).get("state") == "queued")
    cli.run("stop", first.id, "--force")
    assert cli.ended(second)["state"] == "done"
    assert second.output.read_text().splitlines() == ["from the launch 0", str(cli.folder)]
    assert b"from the launch" not in b"".join(
        path.read_bytes() for path in second.path.iterdir() if path.name != "output.log"
    )


def test_a_granted_run_keeps_its_gpus_until_it_is_adopted(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    first = cli.launch("--gpus", "1", "--", "sleep", "600")
    second = cli.launch("--gpus", "1", "--", "true")
    cli.kill_supervisor(second)
    cli.run("stop", first.id, "--force", "--wait")  # adopts it, and then it starts
    assert cli.ended(second)["state"] == "done"
    assert not held_leases(cli.state)


@pytest.mark.parametrize("moment", ["waits", "cleared"])
def test_between_two_attempts_nothing_is_lost(cli: CommandLine, moment: str) -> None:
    preset = cli.folder / "again.yaml"
    preset.write_text(
        "launcher: command\nshell: true\ngpus: 0\n"
        'command: "echo $SECRET_TOKEN; [ -e once ] || { touch once; exit 7; }"\n'
        "restart: {times: 1, backoff: 3s}\n"
    )
    run = cli.launch("again.yaml", SECRET_TOKEN="hidden")
    eventually(lambda: record(run).get("next_attempt") == 2, what="the pause before it")
    cli.kill_supervisor(run)
    if moment == "cleared":  # killed a moment later, when the first attempt was put away
        run.exit.unlink()
        run.leader.unlink()
        run.output.rename(run.path / "output.1.log")
    adopt_orphans(cli.state)
    assert cli.ended(run)["state"] == "done"
    assert record(run)["attempt"] == 2
    assert (run.path / "output.1.log").read_text() == run.output.read_text() == "hidden\n"


def test_a_stop_while_nobody_supervises_a_waiting_run(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    cli.launch("--gpus", "1", "--", "sleep", "600")
    second = cli.launch("--gpus", "1", "--", "sleep", "600")
    cli.kill_supervisor(second)
    request_stop(cli.state, read_run(cli.state, second.id))
    assert cli.ended(second)["state"] == "cancelled"


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_record_never_leaves_a_run_that_cannot_be_stopped(
    cli: CommandLine, damage: dict[str, object]
) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    cli.kill_supervisor(run)
    run.state.write_text(json.dumps({**record(run), **damage}))
    cli.run("stop", run.id, "--force", "--wait")
    eventually(lambda: not is_held(run.run_lock), what="nothing left of it")


@pytest.mark.parametrize(
    "damage",
    [
        {"spec": {"stop": {"ladder": "x"}}},
        {"spec": {"stop": None}},
        {"spec": {"restart": []}},
        {"spec": 1},
        {"gpus": 3},
        {"argv": 1},
    ],
)
def test_a_damaged_plan_never_leaves_a_run_that_cannot_be_stopped(
    cli: CommandLine, damage: dict[str, object]
) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    cli.kill_supervisor(run)
    run.plan.write_text(json.dumps(json.loads(run.plan.read_text()) | damage))
    cli.run("stop", run.id, "--force", "--wait")
    eventually(lambda: not is_held(run.run_lock), what="nothing left of it")


def test_a_damaged_intent_is_an_intent(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    run.stop.write_text('{"requests": "many", "force": "yes"}')
    poke_supervisor(run)
    assert cli.ended(run)["state"] == "stopped"


def test_a_poke_never_reaches_a_pid_that_is_not_the_supervisor(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    sleeper = [
        sys.executable,
        "-c",
        "import time; print('up', flush=True); time.sleep(600)",
        run.id,
    ]
    with subprocess.Popen(sleeper, stdout=subprocess.PIPE) as innocent:
        assert innocent.stdout is not None and innocent.stdout.readline()
        text = run.state.read_text()
        before = record(run)["supervisor_pid"]
        run.state.write_text(text.replace(str(before), str(innocent.pid)))
        assert supervisor_of(run) is None and poke_supervisor(run) is False
        assert innocent.poll() is None
        innocent.kill()
        run.state.write_text(text)
    assert poke_supervisor(run) is True


def test_a_suspended_supervisor_is_said(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    pid = record(run)["supervisor_pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: f"kill -CONT {pid}" in read_run(cli.state, run.id).reason)
        assert f"kill -CONT {pid}" in cli.run("stop", run.id).stderr
        assert "suspended" in cli.run("doctor", exits=None).stdout
    finally:
        os.kill(pid, signal.SIGCONT)
    assert cli.ended(run)["state"] == "stopped"


def test_an_illegal_transition_is_told_and_stops_nothing(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    cli.kill_supervisor(run)
    run.state.write_text(json.dumps({**record(run), "state": "queued"}))
    adopt_orphans(cli.state)
    alert = eventually(lambda: events(run, "alert"))[0]
    assert alert["text"] == transition(State.QUEUED, State.RUNNING)
    assert leader(run)
    eventually(lambda: cli.status(run)["state"] == "running")
