"""A machine that its provider takes away, or that is shut down: real runs, and a local server that
answers as the provider's metadata service does.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from runners.cost.preemption import read_preemption
from runners.guard.rule import read_guard
from runners.host.locks import is_held
from runners.model.endings import EndingCause
from runners.model.states import State
from runners.state.layout import RunDirectory, StateDirectory
from tests.clouds import Cloud, serving
from tests.command_text import QUEUED_AGAIN
from tests.process.conftest import CommandLine, events, record
from tests.process.test_notices import settings
from tests.process.test_reboot import reboot
from tests.support import eventually

SAVES = """
import signal, sys, time
def save(*_):
    open(sys.argv[1], "w").write("weights")
    sys.exit(0)
signal.signal(signal.SIGINT, save)
print("ready", flush=True)
time.sleep(600)
"""
HARD = """
import signal, time
for name in ("SIGINT", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
print("ready", flush=True)
while True:
    time.sleep(60)
"""
PYTHON = (sys.executable, "-S", "-c")


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> Iterator[Cloud]:
    """A metadata service that may be asked; what asks it is ended with the test."""
    with serving() as server:
        monkeypatch.setenv("FRESNEL_METADATA", server.url)
        yield server
        if is_held(cli.state.preemption_lock):
            kill_asker(cli)


def kill_asker(cli: CommandLine) -> None:
    """SIGKILL to whoever asks the provider; one that has just begun has not written its pid."""
    lock = cli.state.preemption_lock

    def pid() -> int:
        try:
            found = int(lock.read_text())
            return found if b"preemption" in Path(f"/proc/{found}/cmdline").read_bytes() else 0
        except (OSError, ValueError):
            return 0

    os.kill(eventually(pid, what="who asks the provider"), signal.SIGKILL)
    eventually(lambda: not is_held(lock), what="nobody who asks")


def in_s(seconds: float) -> str:
    then = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def heard(state: StateDirectory) -> list[str]:
    """What was announced of the machine."""
    try:
        lines = (state.host / "notices.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [event["text"] for line in lines if (event := json.loads(line))["type"] == "preempted"]


def test_every_run_is_stopped_in_the_notice_s_time_and_all_is_said(
    cloud: Cloud, cli: CommandLine, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    settings(tmp_path, f'notices:\n  command: echo "$FRESNEL_NOTICE_TEXT" >>{told}\n')
    cloud.is_aws()
    cli.run("session", "start", "--rate", "3600", "--since", "now")
    saved = tmp_path / "saved"
    gentle = cli.command(*PYTHON, SAVES, str(saved), ready="ready")
    hard = cli.command(*PYTHON, HARD, ready="ready")
    cli.run("list")
    eventually(lambda: is_held(cli.state.preemption_lock), what="somebody who asks")
    assert read_preemption(cli.state) is None
    cloud.is_aws({"action": "terminate", "time": in_s(40)})
    found = eventually(lambda: read_preemption(cli.state), what="the notice, written down")
    assert found.ends is not None and found.ends_bill and found.provider == "AWS"
    # Before the end: said on every surface.
    view = read_guard(cli.state)
    assert view.is_urgent and view.preemption is not None
    assert cli.json("cost")["guard"]["preemption"]["action"] == "terminate"
    assert "AWS" in cli.run("list").stderr
    refused = cli.run("launch", "--gpus", "0", "--", "true", exits=4)
    assert "AWS" in refused.stderr
    # Their ladder of 50 s or more in less than 40.
    for run in (gentle, hard):
        ended = cli.ended(run)
        assert ended["state"] == State.STOPPED
        assert ended["ending"]["cause"] == EndingCause.PREEMPTED
        assert "AWS" in ended["reason"]
        assert (record(run)["ended"] or 0.0) <= found.ends.wall
    assert saved.read_text() == "weights"
    assert [event["rung"] for event in events(hard, "stop")][-1] == "SIGKILL"
    (text,) = eventually(lambda: heard(cli.state))
    assert gentle.id in text and hard.id in text, "what is not fetched is named"
    eventually(lambda: told.is_file() and gentle.id in told.read_text())
    named = read_preemption(cli.state)
    assert named is not None and set(named.unfetched) == {gentle.id, hard.id}


def test_a_run_is_left_alone_while_the_machine_is_only_at_risk(
    cloud: Cloud, cli: CommandLine
) -> None:
    cloud.is_aws(risk={"noticeTime": in_s(0)})
    run = cli.command(*PYTHON, SAVES, str(cli.folder / "saved"), ready="ready")
    cli.run("list")
    found = eventually(lambda: read_preemption(cli.state), what="the recommendation")
    assert found.ends is None and not run.stop.exists()
    eventually(lambda: heard(cli.state), what="that it is said")
    assert cli.status(run)["state"] == "running"
    cli.command("true")


def test_a_killed_process_does_not_lose_the_notice(cloud: Cloud, cli: CommandLine) -> None:
    cloud.is_google()
    run = cli.command(*PYTHON, HARD, ready="ready")
    cli.run("list")
    eventually(lambda: "GET /computeMetadata/v1/instance/preempted" in cloud.asked)
    kill_asker(cli)
    os.utime(
        cli.state.preemption_lock, (time.time() - 100,) * 2
    )  # as if it had been started a while ago
    cloud.is_google("TRUE")
    cli.run("list")
    found = eventually(lambda: read_preemption(cli.state), what="the notice")
    assert found.ends is not None
    assert cli.ended(run)["ending"]["cause"] == EndingCause.PREEMPTED


COUNTS = (
    'n=$(cat "$2" 2>/dev/null || echo 0); trap "exit 0" INT TERM; '
    "while [ $n -lt 30 ]; do n=$((n+1)); echo count $n; "
    "echo $n > $FRESNEL_RUN_DIR/.draft; mv $FRESNEL_RUN_DIR/.draft $FRESNEL_RUN_DIR/c_$n.txt; "
    "while [ -e $1 ] && [ $n -ge 10 ]; do sleep 0.05; done; done"
)
SURVIVES = "restart={times: 0, boot: true, arguments: ['${checkpoint}']}"


def counting(cli: CommandLine) -> RunDirectory:
    """A run that survives a boot, at its tenth count of thirty, held there by a file."""
    hold = cli.folder / "hold"
    hold.touch()
    options = ("--set", SURVIVES, "--set", "checkpoints=${run_dir}/c_*.txt")
    run = cli.command("sh", "-c", COUNTS, "counts", str(hold), options=options, ready="count 10\n")
    cli.run("list")
    eventually(lambda: is_held(cli.state.preemption_lock), what="somebody who asks")
    return run


def counted(run: RunDirectory) -> list[str]:
    before = (run.path / "output.1.log").read_text().split("\n")
    return [text for text in (*before, *run.output.read_text().split("\n")) if "count" in text]


def test_a_run_that_survives_a_boot_goes_on_once_when_the_machine_is_back(
    cloud: Cloud, cli: CommandLine
) -> None:
    cloud.is_aws()
    run = counting(cli)
    cloud.is_aws({"action": "stop", "time": in_s(60)})
    eventually(lambda: record(run).get("next_attempt") == 2, what="its program stopped")
    eventually(lambda: not run.stop.exists(), what="a run that is not to be stopped")
    # Whoever asks the provider is killed: the next does not take the run that waits for running.
    kill_asker(cli)
    os.utime(cli.state.preemption_lock, (time.time() - 100,) * 2)
    eventually(lambda: cli.run("list") and is_held(cli.state.preemption_lock))
    found = read_preemption(cli.state)
    assert found is not None
    kill_asker(cli)
    cloud.is_aws()
    reboot(cli, run, cli.state.preemption)
    (cli.folder / "hold").unlink()
    for _ in range(3):
        cli.run("service", "boot")
        cli.run("list")
    ended = cli.ended(run)
    assert (ended["state"], ended["attempt"]) == ("done", 2), ended
    assert counted(run) == [f"count {n}" for n in range(1, 31)], "no count lost, none repeated"
    (line,) = [text for text in cli.state.ledger.read_text().splitlines() if run.id in text]
    assert json.loads(line)["state"] == "done"


def test_a_run_that_the_machine_took_before_it_had_stopped_goes_on_too(
    cloud: Cloud, cli: CommandLine
) -> None:
    cloud.is_aws()
    options = ("--set", "restart={times: 0, boot: true}")
    run = cli.command(*PYTHON, HARD, options=options, ready="ready")
    cli.run("list")
    eventually(lambda: is_held(cli.state.preemption_lock), what="somebody who asks")
    cloud.is_aws({"action": "stop", "time": in_s(60)})
    eventually(run.stop.exists, what="the stop")
    kill_asker(cli)
    cloud.is_aws()
    reboot(cli, run, cli.state.preemption)
    assert QUEUED_AGAIN in str(cli.status(run)["reason"])
    cli.run("service", "boot")
    eventually(lambda: record(run)["attempt"] == 2 and record(run)["state"] == "running")
    assert not run.stop.exists()


def test_a_notice_that_is_withdrawn_lets_the_run_go_on_here(cloud: Cloud, cli: CommandLine) -> None:
    cloud.is_aws()
    run = counting(cli)
    cloud.is_aws({"action": "stop", "time": in_s(60)})
    eventually(lambda: record(run).get("next_attempt") == 2, what="its program stopped")
    (cli.folder / "hold").unlink()
    cloud.is_aws()
    ended = cli.ended(run)
    assert (ended["state"], ended["attempt"]) == ("done", 2), ended
    assert counted(run) == [f"count {n}" for n in range(1, 31)]


def test_a_run_that_waits_for_its_machine_can_be_stopped(cloud: Cloud, cli: CommandLine) -> None:
    cloud.is_aws()
    run = counting(cli)
    cloud.is_aws({"action": "stop", "time": in_s(60)})
    eventually(lambda: record(run).get("next_attempt") == 2, what="its program stopped")
    cli.run("stop", run.id, "--wait", exits=None)
    assert cli.ended(run)["ending"]["cause"] == EndingCause.STOPPED


# ── the power button ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that says of the system what this file says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    state = tmp_path / "system"
    state.write_text("running\n")
    command = folder / "systemctl"
    command.write_text(f"#!/bin/sh\ncat {state}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return state


def test_a_shutdown_gives_the_run_its_ladder(
    cli: CommandLine, systemctl: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    run = cli.command(*PYTHON, SAVES, str(saved), ready="ready")
    pid = record(run)["supervisor_pid"]
    systemctl.write_text("stopping\n")
    os.kill(pid, signal.SIGTERM)
    ended = cli.ended(run)
    assert (ended["state"], ended["ending"]["cause"]) == (State.STOPPED, EndingCause.PREEMPTED)
    assert saved.read_text() == "weights"
    assert [event["text"] for event in events(run, "alert")]
    (line,) = [json.loads(line) for line in cli.state.ledger.read_text().splitlines()]
    assert line["run"] == run.id and line["finished"], "its books are closed"


# The supervisor, which gets a shutdown's SIGTERM at one point of a run.
TERMINATED = """
import os, signal, sys
from runners.lifecycle.supervisor import attempt, attempt_start, supervisor
def terminated(owner, name):
    take = getattr(owner, name)
    def taken(*given, **more):
        os.kill(os.getpid(), signal.SIGTERM)
        return take(*given, **more)
    setattr(owner, name, taken)
point = int(sys.argv.pop(1))
if point == 0:  # its program has begun, and nothing of that is recorded yet
    terminated(attempt_start, "own_scope")
elif point == 1:  # it is recorded as running
    terminated(attempt_start, "append_event")
else:  # it has ended, and nothing of that is recorded yet
    terminated(attempt.Attempt, "clear_stragglers")
supervisor.main()
"""


@pytest.mark.parametrize("point", [0, 1])
def test_a_shutdown_is_heard_as_soon_as_the_program_has_begun(
    systemctl: Path, run_with: Callable[[str, int, str], RunDirectory], point: int
) -> None:
    systemctl.write_text("stopping\n")
    run = run_with(TERMINATED, point, "sleep 300")
    eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor's end")
    assert record(run)["state"] == State.STOPPED
    assert record(run)["ending"]["cause"] == EndingCause.PREEMPTED


def test_a_shutdown_does_not_lose_how_a_run_ended(
    systemctl: Path, run_with: Callable[[str, int, str], RunDirectory]
) -> None:
    systemctl.write_text("stopping\n")
    run = run_with(TERMINATED, 2, "exit 6")
    eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor's end")
    assert (record(run)["state"], record(run)["exit_code"]) == (State.FAILED, 6)


def test_a_program_that_hears_of_the_shutdown_first_has_not_failed(
    cli: CommandLine, systemctl: Path
) -> None:
    systemctl.write_text("stopping\n")
    run = cli.command("sh", "-c", "echo ready; kill -TERM $$")
    assert cli.ended(run)["ending"]["cause"] == EndingCause.PREEMPTED


def test_the_ladder_of_a_shutdown_ends_before_the_machine(
    cli: CommandLine, systemctl: Path
) -> None:
    run = cli.command(*PYTHON, HARD, ready="ready")
    systemctl.write_text("stopping\n")
    began = time.time()
    os.kill(record(run)["supervisor_pid"], signal.SIGTERM)
    stop = eventually(lambda: record(run).get("stop"))
    heard_by = time.time()
    deadline = json.loads(run.stop.read_text())["deadline"][0]
    assert began + 80 < deadline <= heard_by + 86
    assert stop["until"] < deadline


def test_a_supervisor_that_somebody_ends_is_adopted_as_before(
    cli: CommandLine, systemctl: Path
) -> None:
    run = cli.command(*PYTHON, HARD, ready="ready")
    pid = record(run)["supervisor_pid"]
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not is_held(run.supervisor_lock), what="its end")
    assert not run.stop.exists()
    cli.run("list")
    eventually(lambda: is_held(run.supervisor_lock), what="an adopter")
