"""Stopping: gently first, harder when asked again, and nothing is left."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.host.procfs import marked_processes
from runners.lifecycle.control.stop import request_stop
from runners.model.errors import ExitCode
from runners.model.run import Run
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from tests.command_text import (
    LEFT_ALONE,
    NEXT_RUNG_IN,
    NOT_STOPPED,
    TAKEN_OUT,
    ended_already,
    on_host,
)
from tests.process.conftest import STUBBORN, CommandLine, events, leader, record
from tests.support import eventually

PYTHON = (sys.executable, "-S", "-c")
SLOW = ("--set", "stop.ladder=[SIGINT 10m, SIGTERM 10m, SIGKILL 5s]")
QUICK = ("--set", "stop.ladder=[SIGINT 0.1s, SIGTERM 0.1s, SIGKILL 5s]")

# Writes the signals it gets into its output, and ends at the one named by its argument.
TELLTALE = (
    "import signal, sys, time\n"
    "def tell(number, _):\n"
    "    name = signal.Signals(number).name\n"
    "    print(name, flush=True)\n"
    "    if name == sys.argv[1]: sys.exit(0)\n"
    "for name in ('SIGINT', 'SIGTERM', 'SIGUSR1'): signal.signal(getattr(signal, name), tell)\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(60)\n"
)


def rungs(run: RunDirectory) -> list[str]:
    """The rungs taken, as recorded."""
    return [event["rung"] for event in events(run, "stop")]


def ask(cli: CommandLine, run: RunDirectory, force: bool = False) -> None:
    """Ask for a stop as a front end does."""
    request_stop(cli.state, read_run(cli.state, run.id), force)


def test_a_program_that_heeds_the_first_signal_gets_no_other(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, TELLTALE, "SIGINT", options=SLOW, ready="ready")
    found = cli.json("stop", run.id, "--wait")
    assert (found["state"], found["exit_code"], found["stop"]) == ("stopped", 0, None)
    assert found["reason"].startswith("stopped by ")
    assert run.output.read_text() == "ready\nSIGINT\n"
    assert rungs(run) == ["SIGINT"]
    (taken,) = events(run, "stop")
    assert taken["signalled"] == [leader(run)] and taken["until"] > taken["time"]


def test_a_filter_finds_what_is_to_be_stopped_and_asks_first(cli: CommandLine) -> None:
    good, bad = (cli.command(*PYTHON, TELLTALE, "SIGINT", ready="ready") for _ in range(2))
    cli.run("tag", bad.id, "bad")
    refused = cli.run("stop", "tag:bad", exits=ExitCode.DENIED).stderr
    assert bad.id in refused and good.id not in refused and "--yes" in refused
    assert read_run(cli.state, bad.id).state is State.RUNNING
    cli.run("stop", "tag:nobody", exits=ExitCode.NOT_FOUND)
    (stopped,) = cli.json("stop", "tag:bad", "state:running", "--yes", "--wait")
    assert (stopped["id"], stopped["state"]) == (bad.id, "stopped")
    assert read_run(cli.state, good.id).is_live
    ask(cli, good, force=True)


def test_what_only_waits_is_said_to_be_taken_out_of_the_queue(cli: CommandLine) -> None:
    cli.run("drain", "on")
    run = cli.launch("--gpus", "0", "--", "true")
    assert cli.run("stop", run.id).stderr == f"{run.id} {TAKEN_OUT}\n"
    assert cli.ended(run)["state"] == "cancelled"


def test_a_program_that_ignores_everything_is_killed_at_the_last_rung(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, STUBBORN, "SIGINT", "SIGTERM", options=QUICK, ready="ready")
    found = cli.json("stop", run.id, "--wait")
    assert (found["state"], found["exit_code"]) == ("stopped", 137)
    assert rungs(run) == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_a_program_that_ignores_only_sigint_ends_by_sigterm(cli: CommandLine) -> None:
    ladder = ("--set", "stop.ladder=[SIGINT 0.1s, SIGTERM 10m, SIGKILL 5s]")
    run = cli.command(*PYTHON, STUBBORN, "SIGINT", options=ladder, ready="ready")
    ask(cli, run)
    found = cli.ended(run)
    assert (found["state"], found["exit_code"], rungs(run)) == (
        "stopped",
        143,
        ["SIGINT", "SIGTERM"],
    )


def test_while_it_stops_the_rung_and_its_countdown_are_shown(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, STUBBORN, "SIGINT", "SIGTERM", options=SLOW, ready="ready")
    said = cli.run("stop", run.id).stderr
    assert f"stopping {run.id}: SIGINT 10m00s → SIGTERM 10m00s → SIGKILL 5s" in said
    found = eventually(lambda: (now := cli.status(run))["stop"] and now)
    assert found["state"] == "stopping" and found["reason"].startswith("stop asked by ")
    stop = found["stop"]
    assert (stop["rung"], stop["step"], stop["steps"]) == ("SIGINT", 1, 3)
    assert 500 < stop["until"] - stop["asked_at"] < 700
    assert f"SIGINT, step 1 of 3, {NEXT_RUNG_IN}" in cli.run("status", run.id).stdout


def test_asked_again_it_takes_the_next_rung_at_once(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, STUBBORN, "SIGINT", "SIGTERM", options=SLOW, ready="ready")
    ask(cli, run)
    eventually(lambda: rungs(run) == ["SIGINT"])
    assert "SIGTERM 10m00s → SIGKILL" in cli.run("stop", run.id).stderr
    eventually(lambda: rungs(run) == ["SIGINT", "SIGTERM"])
    assert cli.status(run)["state"] == "stopping"
    ask(cli, run)
    assert cli.ended(run)["state"] == "stopped"
    assert rungs(run) == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_force_goes_to_sigkill_alone(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, TELLTALE, "SIGINT", options=SLOW, ready="ready")
    found = cli.json("stop", "last", "--force", "--wait")
    assert (found["state"], found["exit_code"]) == ("stopped", 137)
    assert rungs(run) == ["SIGKILL"] and run.output.read_text() == "ready\n"


def test_force_ends_a_stop_that_has_begun(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, STUBBORN, "SIGINT", options=SLOW, ready="ready")
    ask(cli, run)
    eventually(lambda: rungs(run))
    ask(cli, run, force=True)
    assert cli.ended(run)["exit_code"] == 137 and rungs(run) == ["SIGINT", "SIGKILL"]


def test_stop_all_stops_every_live_run_and_says_nothing_of_the_ended(cli: CommandLine) -> None:
    ended = cli.command("true")
    cli.ended(ended)
    live = [cli.command("sleep", "300") for _ in range(3)]
    found = cli.json("stop", "--all", "--wait")
    assert {run["id"] for run in found} == {run.id for run in live}
    assert {run["state"] for run in found} == {"stopped"}
    assert cli.json("stop", "--all") == []
    assert f"{ended.id} {ended_already(State.DONE)}" in cli.run("stop", ended.id).stderr
    assert cli.status(ended)["state"] == "done"


def test_a_stop_file_is_seen_by_the_program_and_needs_no_signal(cli: CommandLine) -> None:
    # It waits for what is recorded too: the request alone is there before anybody acts on it.
    script = (
        'cd "$FRESNEL_RUN_DIR"; echo ready; while [ ! -e stop.json ]; do sleep 0.01; done; '
        "until grep -q stop-file supervisor.jsonl; do sleep 0.01; done; echo saved"
    )
    run = cli.command(
        "sh",
        "-c",
        script,
        options=["--set", "stop.ladder=[stop-file 10m, SIGINT 10m]"],
        ready="ready",
    )
    ask(cli, run)
    found = cli.ended(run)
    assert (found["state"], found["exit_code"], run.output.read_text()) == (
        "stopped",
        0,
        "ready\nsaved\n",
    )
    assert rungs(run) == ["stop-file"] and events(run, "stop")[0]["signalled"] == []


# A leader in a group with a child, and a worker that is a session of its own, as torchrun's ranks
# are.
FAMILY = (
    "import os, signal, subprocess, sys, time\n"
    "def say(word): os.write(1, f'{sys.argv[1]} {word}\\n'.encode())  # one write: three of "
    "them share the file\n"
    "def tell(number, _): say(signal.Signals(number).name); os._exit(0)\n"
    "signal.signal(signal.SIGINT, tell)\n"
    "if sys.argv[1] == 'leader':\n"
    "    for name, alone in (('child', False), ('worker', True)):\n"
    "        subprocess.Popen([sys.executable, '-S', '-c', sys.argv[2], name], "
    "start_new_session=alone)\n"
    "say('ready')\n"
    "while True: time.sleep(60)\n"
)


@pytest.mark.parametrize(
    ("target", "reached"),
    [("leader", {"leader"}), ("group", {"leader", "child"}), ("workers", {"child", "worker"})],
)
def test_signals_go_where_the_preset_says(cli: CommandLine, target: str, reached: set[str]) -> None:
    options = [*SLOW, "--set", f"stop.target={target}"]
    run = cli.command(*PYTHON, FAMILY, "leader", FAMILY, options=options)
    eventually(lambda: run.output.read_text().count("ready") == 3)
    ask(cli, run)
    told = {f"{name} SIGINT" for name in reached}
    eventually(lambda: told <= set(run.output.read_text().splitlines()))
    (rung,) = eventually(lambda: events(run, "stop"))  # recorded after the signal is sent
    assert len(rung["signalled"]) == len(reached)
    ask(cli, run, force=True)
    assert cli.ended(run)["state"] == "stopped"
    assert set(run.output.read_text().splitlines()) == told | {
        f"{n} ready" for n in ("leader", "child", "worker")
    }
    assert not marked_processes(run.id)


# A wrapper that leaves at the signal at once; the trainer below it saves until the file named by
# its argument appears.
WRAPPED = (
    "import os, signal, subprocess, sys, time\n"
    "def save(number, _):\n"
    "    os.write(1, b'saving\\n')\n"
    "    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
    "    os.write(1, b'saved\\n'); os._exit(0)\n"
    "if os.fork(): signal.signal(signal.SIGINT, lambda *_: os._exit(0))\n"
    "else: signal.signal(signal.SIGINT, save); os.write(1, b'ready\\n')\n"
    "while True: time.sleep(60)\n"
)


def test_a_trainer_whose_wrapper_leaves_at_the_signal_has_the_time_of_its_rung(
    cli: CommandLine,
) -> None:
    options = [*SLOW, "--set", "stop.target=group"]
    run = cli.command(*PYTHON, WRAPPED, str(cli.folder / "go"), options=options, ready="ready")
    ask(cli, run)
    eventually(lambda: "saving" in run.output.read_text() and run.exit.exists())
    eventually(lambda: cli.status(run)["state"] == "stopping", what="a recorded stop")
    assert cli.status(run)["stop"]["rung"] == "SIGINT"
    (cli.folder / "go").touch()
    found = cli.ended(run)
    assert (found["state"], found["exit_code"], run.output.read_text()) == (
        "stopped",
        0,
        "ready\nsaving\nsaved\n",
    )
    assert rungs(run) == ["SIGINT"] and not events(run, "left over")


def test_what_never_heard_the_signal_is_not_waited_for(cli: CommandLine) -> None:
    """A shell's background jobs ignore SIGINT: they get SIGTERM as soon as the shell has left."""
    script = "trap 'echo saved; exit 0' INT; sleep 300 & echo ready; wait"
    run = cli.command(
        "sh", "-c", script, options=[*SLOW, "--set", "stop.target=group"], ready="ready"
    )
    ask(cli, run)
    assert cli.ended(run)["state"] == "stopped" and run.output.read_text() == "ready\nsaved\n"
    assert rungs(run) == ["SIGINT"] and [event["signal"] for event in events(run, "left over")] == [
        "SIGTERM"
    ]


def test_a_trainer_whose_wrapper_left_is_driven_on_by_another_press(cli: CommandLine) -> None:
    options = [*SLOW, "--set", "stop.target=group"]
    run = cli.command(*PYTHON, WRAPPED, str(cli.folder / "never"), options=options, ready="ready")
    ask(cli, run)
    eventually(lambda: "saving" in run.output.read_text() and run.exit.exists())
    ask(cli, run)
    found = cli.ended(run)
    assert (found["state"], run.output.read_text()) == ("stopped", "ready\nsaving\n")
    assert rungs(run) == ["SIGINT", "SIGTERM"]


# Forks twice into a session of its own, ignores SIGTERM, closes every descriptor, and stays.
DAEMON = (
    "import os, signal, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    os.chdir('/')\n"
    "    open(sys.argv[1], 'w').write(str(os.getpid()))\n"
    "    os.closerange(0, 256)\n"
    "    while True: time.sleep(60)\n"
    "while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)\n"
    "print('ready', flush=True)\n"
)


def test_a_grandchild_that_hides_is_ended_with_a_forced_stop(cli: CommandLine) -> None:
    noted = cli.folder / "pid"
    run = cli.command(*PYTHON, DAEMON + "while True: time.sleep(60)\n", str(noted), ready="ready")
    hidden = int(noted.read_text())
    assert hidden in marked_processes(run.id)
    ask(cli, run, force=True)
    assert cli.ended(run)["state"] == "stopped"
    assert not _alive(hidden) and not marked_processes(run.id)


def test_a_grandchild_that_heeds_sigterm_is_ended_after_its_program(cli: CommandLine) -> None:
    noted = cli.folder / "pid"
    run = cli.command(
        *PYTHON, DAEMON.replace("signal.SIG_IGN", "signal.SIG_DFL"), str(noted), ready="ready"
    )
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("done", 0)
    assert [event["signal"] for event in events(run, "left over")] == ["SIGTERM"]
    assert not _alive(int(noted.read_text()))


def test_a_grandchild_that_ignores_sigterm_is_killed_after_its_program(cli: CommandLine) -> None:
    noted = cli.folder / "pid"
    run = cli.command(*PYTHON, DAEMON, str(noted), ready="ready")
    assert cli.ended(run)["state"] == "done"
    assert [event["signal"] for event in events(run, "left over")] == ["SIGTERM", "SIGKILL"]
    assert not _alive(int(noted.read_text()))


def _alive(pid: int) -> bool:
    return (
        Path(f"/proc/{pid}/status").exists()
        and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    )


def test_a_program_that_lost_its_mark_is_stopped_all_the_same(cli: CommandLine) -> None:
    """`env -i` and setproctitle take the mark away; below the waiter it still is the run's."""
    run = cli.command("env", "-i", "sleep", "300")
    eventually(lambda: b"sleep" in Path(f"/proc/{leader(run)}/cmdline").read_bytes()[:6])
    assert leader(run) not in marked_processes(run.id)
    ask(cli, run)
    found = cli.ended(run)
    assert (found["state"], found["exit_code"]) == ("stopped", 130)


def test_somebody_else_s_process_is_never_signalled(cli: CommandLine) -> None:
    """The pid file of a run is no licence: a pid without the run's mark, not below its waiter, is
    left alone.
    """
    bystander, run = (
        cli.command(*PYTHON, TELLTALE, "SIGUSR1", options=SLOW, ready="ready") for _ in range(2)
    )
    run.leader.write_text(str(leader(bystander)))
    ask(cli, run)
    eventually(lambda: rungs(run))
    assert leader(bystander) not in events(run, "stop")[0]["signalled"]
    assert bystander.output.read_text() == "ready\n"


def test_a_stop_asked_before_the_supervisor_looks_is_not_lost(cli: CommandLine) -> None:
    """The intent is on disk; a frozen supervisor finds it when it wakes."""
    run = cli.command(*PYTHON, STUBBORN, options=SLOW, ready="ready")
    supervisor = read_run(cli.state, run.id).record.supervisor_pid  # type: ignore[union-attr]
    assert supervisor is not None
    os.kill(supervisor, signal.SIGSTOP)
    try:
        ask(cli, run)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert cli.ended(run)["state"] == "stopped"


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", "\0"])
def test_a_damaged_intent_is_still_an_intent(cli: CommandLine, damage: str) -> None:
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    run.stop.write_text(damage)
    supervisor: Callable[[], Run] = lambda: read_run(cli.state, run.id)  # noqa: E731
    os.kill(supervisor().record.supervisor_pid, signal.SIGUSR1)  # type: ignore[union-attr,arg-type]
    assert cli.ended(run)["state"] == "stopped"


def test_a_run_of_another_host_is_left_alone(cli: CommandLine) -> None:
    theirs = cli.command("sleep", "300", FRESNEL_HOST="box-a")
    eventually(lambda: cli.status(theirs)["state"] == "running")
    before = theirs.state.read_bytes()
    refused = cli.run("stop", theirs.id, "--force", exits=None, FRESNEL_HOST="box-b")
    assert on_host(theirs.id, "box-a") in refused.stderr and refused.returncode in (2, 4)
    everywhere = cli.run("stop", "--all", "--force", FRESNEL_HOST="box-b").stderr
    assert f"{theirs.id} {LEFT_ALONE}" in everywhere
    ours = cli.command("sleep", "300", FRESNEL_HOST="box-b")
    cli.run("stop", theirs.id, ours.id, "--force", "--wait", exits=None, FRESNEL_HOST="box-b")
    assert cli.status(ours)["state"] == "stopped", "the refusal of one keeps no other from it"
    cli.run("list", FRESNEL_HOST="box-b")
    assert theirs.state.read_bytes() == before and not theirs.stop.exists()
    cli.run("stop", theirs.id, "--force", "--wait", FRESNEL_HOST="box-a")
    assert cli.status(theirs)["state"] == "stopped"


def test_a_run_that_somebody_paused_is_named_and_is_stopped_all_the_same(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    pid = leader(run)
    assert pid is not None
    os.killpg(os.getpgid(pid), signal.SIGSTOP)  # the waiter too, which leads the group
    eventually(lambda: "SIGSTOP" in read_run(cli.state, run.id).reason, what="why nothing happens")
    assert f"fresnel-tui continue {run.id}" in cli.run("doctor", exits=None).stdout
    found = cli.json("stop", run.id, "--force", "--wait")
    assert found["state"] == "stopped"


def test_a_paused_program_heeds_the_first_signal(cli: CommandLine) -> None:
    run = cli.command(*PYTHON, TELLTALE, "SIGINT", options=SLOW, ready="ready")
    pid = leader(run)
    assert pid is not None
    os.killpg(os.getpgid(pid), signal.SIGSTOP)
    found = cli.json("stop", run.id, "--wait")
    assert (found["state"], found["exit_code"]) == ("stopped", 0)
    assert rungs(run) == ["SIGINT"]


def test_a_forced_stop_that_nobody_acts_on_says_so_and_why(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; exec sleep 600", ready="up")
    pid = record(run)["supervisor_pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = cli.run("stop", run.id, "--force", exits=1).stderr
        assert f"{run.id} {NOT_STOPPED}" in answer and f"kill -CONT {pid}" in answer
    finally:
        os.kill(pid, signal.SIGCONT)
    assert cli.ended(run)["state"] == "stopped"
