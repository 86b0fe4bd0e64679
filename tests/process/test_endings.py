"""Every way in which a run ends, brought about for real: the cause that is recorded with its parts,
the class that the diagnosis makes of it, and the same words on every surface.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runners.guard.keeper import guard_lock
from runners.host.locks import is_held
from runners.host.procfs import marked_processes
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.model.endings import Ending, EndingCause, ending_text
from runners.model.run_ids import by_names
from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from tests.process.conftest import CommandLine, leader, record
from tests.support import eventually

DEAF = ("sh", "-c", "trap : TERM INT; echo up; while :; do sleep 0.1; done")
SILENT = 'import time\nprint("step 1 loss 0.5", flush=True)\ntime.sleep(600)\n'
SWEPT = """
import sys, time
rate = float(sys.argv[2])
for step in range(1, 9):
    print(f"step {step} loss {rate / step if rate < 5 else rate:.4f}", flush=True)
while rate > 5: time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def no_guard_is_left(cli: CommandLine) -> Iterator[None]:
    """A guard that a test set is lifted, and gone, before its runs are ended."""
    yield
    (cli.state.guard / "guard.json").unlink(missing_ok=True)
    eventually(lambda: not is_held(guard_lock(cli.state)), what="no guard left over")


def completed(cli: CommandLine) -> RunDirectory:
    return cli.command("true")


def left_running(cli: CommandLine) -> RunDirectory:
    return cli.command("sh", "-c", "sleep 600 & sleep 500 & echo started")


def hidden_failure(cli: CommandLine) -> RunDirectory:
    program = f'{sys.executable} -S -c \'raise FileNotFoundError(2, "gone", "data.pt")\''
    return cli.command("sh", "-c", f"{program} 2>&1 | tee log.txt; echo finished")


def failed(cli: CommandLine) -> RunDirectory:
    return cli.command("sh", "-c", "echo 'ValueError: the data is gone'; exit 3")


def diagnosed(cli: CommandLine) -> RunDirectory:
    return cli.command("sh", "-c", "echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 1")


def unexplained(cli: CommandLine) -> RunDirectory:
    told = "\\033[31mcould not open https://anna:hunter22@host/data\\033[0m"
    return cli.command("sh", "-c", f"echo 'step 1 loss 0.5'; printf '{told}\\n\\n'; exit 3")


def signalled(cli: CommandLine) -> RunDirectory:
    return cli.command("sh", "-c", "kill -SEGV $$")


def stopped(cli: CommandLine) -> RunDirectory:
    run = cli.command("sleep", "600")
    cli.run("stop", run.id)
    return run


def killed(cli: CommandLine) -> RunDirectory:
    run = cli.command(*DEAF, ready="up")
    cli.run("stop", "--force", run.id)
    return run


def cancelled(cli: CommandLine) -> RunDirectory:
    first = cli.launch("--gpus", "0", "--", "sleep", "600")
    run = cli.launch("--gpus", "0", "--after", first.id, "--", "true")
    cli.run("cancel", run.id)
    return run


def out_of_time(cli: CommandLine) -> RunDirectory:
    return cli.command("sleep", "600", options=("--set", "limits.time=1s"))


def out_of_money(cli: CommandLine) -> RunDirectory:
    options = ("--set", "limits.cost=0.0001", "--price", "1.99", "--gpus", "1")
    return cli.command("sleep", "600", options=options, FRESNEL_GPUS="sim:1xMI300X")


def guarded(cli: CommandLine) -> RunDirectory:
    cli.run("session", "start", "--rate", "3600", "--since", "now", "--budget", "1000")
    run = cli.command("sleep", "600")
    cli.run("guard", "set", "--budget-stop", "0.4%", "--countdown", "1s")
    return run


def stalled(cli: CommandLine) -> RunDirectory:
    (cli.folder / "train.py").write_text(SILENT)
    preset = f"launcher: python\ninterpreter: {json.dumps(sys.executable)}\nscript: train.py\n"
    preset += "gpus: 0\non_stall: {after: 2s, stop: true}\nstop: {ladder: [SIGTERM 5s]}\n"
    (cli.folder / "silent.yaml").write_text(preset)
    return cli.launch("./silent.yaml")


def hopeless(cli: CommandLine) -> RunDirectory:
    Path(cli.folder, "train.py").write_text(SWEPT)
    done = cli.run(
        "launch", "--gpus", "0", "--set", "lr=1,2,3,9", "--early-stop", "median",
        "--", sys.executable, "train.py", "--lr", "{lr}",
    )  # fmt: skip
    return cli.state.run(done.stdout.split()[-1])


def asked_by_machine(cause: EndingCause) -> Callable[[CommandLine], RunDirectory]:
    """As the probe asks, or a launch over several machines for one whose program failed."""

    def make(cli: CommandLine) -> RunDirectory:
        run = cli.command("sleep", "600")
        ending = Ending(cause=cause, detail="node 0 on a failed: exit code 1")
        request_stop(cli.state, read_run(cli.state, run.id), ending=ending)
        return run

    return make


def refused(cli: CommandLine) -> RunDirectory:
    first = cli.command("sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    run = cli.launch("--gpus", "0", "--after", f"{first.id}:failure", "--", "true")
    (cli.folder / "go").touch()
    return run


def not_started(cli: CommandLine) -> RunDirectory:
    folder = cli.folder / "gone before the second attempt"
    folder.mkdir()
    words = ("launch", "--gpus", "0", "--set", "restart={times: 1, backoff: 1s}", "--")
    done = cli.run(*words, "sh", "-c", 'rmdir "$PWD"; exit 1', folder=folder)
    return cli.state.run(done.stdout.strip())


def put_back(cli: CommandLine, run: RunDirectory, **changes: object) -> RunDirectory:
    """As a machine that went down leaves a run that had not ended: without its processes."""
    cli.ended(run)
    eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor gone")
    written = record(run) | {"ended": None, "exit_code": None, "ending": None} | changes
    run.state.write_text(json.dumps(written))
    run.exit.unlink()
    run.leader.unlink()
    cli.state.live_marker(run.id).touch()
    adopt_orphans(cli.state)
    return run


def interrupted(cli: CommandLine) -> RunDirectory:
    return put_back(cli, cli.command("true"), state="starting", started=None, waiter_pid=None)


def rebooted(cli: CommandLine) -> RunDirectory:
    return put_back(cli, cli.command("true"), state="running", boot_id="of another boot")


def unknown(cli: CommandLine) -> RunDirectory:
    return vanished(cli, cli.command("sleep", "600"))


def unseen(cli: CommandLine) -> RunDirectory:
    return vanished(cli, cli.command("sh", "-c", "echo step 3; exec sleep 600", ready="step 3"))


def vanished(cli: CommandLine, run: RunDirectory) -> RunDirectory:
    """The run after it, its waiter and its supervisor were killed together."""
    program, waiter = leader(run), record(run)["waiter_pid"]
    cli.kill_supervisor(run)
    for pid in (waiter, program):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not marked_processes(run.id), what="nothing of it left")
    adopt_orphans(cli.state)
    return run


class Case(NamedTuple):
    """One way to end: how it is brought about, its state, parts of its record, its class."""

    cause: EndingCause
    make: Callable[[CommandLine], RunDirectory]
    state: str
    parts: dict[str, Any]
    kind: str | None


CASES = (
    Case(EndingCause.COMPLETED, completed, "done", {}, None),
    Case(
        EndingCause.COMPLETED,
        left_running,
        "done",
        {"left": ["sleep 600", "sleep 500"]},
        "left_running",
    ),
    Case(
        EndingCause.COMPLETED,
        hidden_failure,
        "done",
        {"error": "FileNotFoundError: [Errno 2] gone: 'data.pt'"},
        "file_missing",
    ),
    Case(
        EndingCause.FAILED,
        failed,
        "failed",
        {"error": "ValueError: the data is gone", "signal": None},
        "unknown",
    ),
    Case(
        EndingCause.FAILED,
        diagnosed,
        "failed",
        {"diagnosis": "gpu_out_of_memory"},
        "gpu_out_of_memory",
    ),
    Case(
        EndingCause.FAILED,
        unexplained,
        "failed",
        {"line": "could not open https://anna:********@host/data", "error": None},
        "unknown",
    ),
    Case(EndingCause.SIGNALLED, signalled, "failed", {"signal": "SIGSEGV"}, "crashed"),
    Case(EndingCause.STOPPED, stopped, "stopped", {"forced": False}, "stopped"),
    Case(EndingCause.STOPPED, killed, "stopped", {"forced": True, "signal": "SIGKILL"}, "stopped"),
    Case(EndingCause.CANCELLED, cancelled, "cancelled", {"forced": False}, "cancelled"),
    Case(
        EndingCause.LIMIT, out_of_time, "stopped", {"seconds": 1.0, "usd": None}, "stopped_at_limit"
    ),
    Case(EndingCause.LIMIT, out_of_money, "stopped", {"usd": "0.0001"}, "stopped_at_limit"),
    Case(EndingCause.GUARD, guarded, "stopped", {}, "stopped_by_guard"),
    Case(EndingCause.STALL, stalled, "stopped", {"seconds": 2.0}, "stopped_at_stall"),
    Case(EndingCause.HOPELESS, hopeless, "stopped", {}, "stopped"),
    Case(EndingCause.PROBE, asked_by_machine(EndingCause.PROBE), "stopped", {}, "stopped"),
    Case(EndingCause.SLURM, asked_by_machine(EndingCause.SLURM), "stopped", {}, "ended_by_slurm"),
    Case(EndingCause.PEER, asked_by_machine(EndingCause.PEER), "stopped", {}, "stopped"),
    Case(
        EndingCause.PREEMPTED,
        asked_by_machine(EndingCause.PREEMPTED),
        "stopped",
        {},
        "machine_taken_away",
    ),
    Case(
        EndingCause.LOGOUT,
        asked_by_machine(EndingCause.LOGOUT),
        "stopped",
        {},
        "ended_at_logout",
    ),
    Case(EndingCause.REFUSED, refused, "failed", {}, "not_started"),
    Case(EndingCause.NOT_STARTED, not_started, "failed", {}, "not_started"),
    Case(EndingCause.INTERRUPTED, interrupted, "failed", {}, "not_started"),
    Case(EndingCause.REBOOTED, rebooted, "lost", {}, "host_rebooted"),
    Case(EndingCause.UNSEEN, unseen, "unseen", {"line": "step 3"}, "unknown"),
    Case(EndingCause.UNKNOWN, unknown, "lost", {}, "unknown"),
)


def test_every_cause_is_brought_about() -> None:
    assert {case.cause for case in CASES} == set(EndingCause)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.cause}-{case.state}" for case in CASES])
def test_how_a_run_ended_is_recorded_and_said_alike_everywhere(
    cli: CommandLine, case: Case
) -> None:
    run = case.make(cli)
    found = cli.ended(run)
    written = record(run)["ending"]
    assert (found["state"], found["ending"]["cause"]) == (case.state, case.cause), found
    assert {name: found["ending"][name] for name in case.parts} == case.parts, found["ending"]
    assert written["cause"] == case.cause
    words = ending_text(
        {**written, "cause": EndingCause(written["cause"])}, record(run)["exit_code"]
    )
    assert (found["reason"] or "") == words
    shown = next(one for one in cli.json("list") if one["id"] == run.id)
    assert (shown["ending"], shown["reason"]) == (found["ending"], found["reason"])
    # Of a program's own line the details show where it stands in the log, and not twice.
    said = found["ending"]["error"] or found["ending"]["line"] or by_names(words)
    assert said in cli.run("status", run.id).stdout
    verdict = cli.json("diagnose", run.id)["diagnosis"]
    assert (verdict and verdict["class"]) == case.kind, verdict
    by_text = (EndingCause.FAILED, EndingCause.SIGNALLED)
    if case.cause not in by_text and not case.parts.get("error") and verdict:
        assert verdict["cause"] == words or not verdict["known"]


def test_a_guard_s_ending_names_its_rule(cli: CommandLine) -> None:
    run = guarded(cli)
    ending = cli.ended(run)["ending"]
    rule = json.loads((cli.state.guard / "guard.json").read_text())
    assert ending["rule"] == rule["id"] and ending["detail"].startswith("budget: $")


def test_memory_kills_are_kept_beyond_the_control_group(cli: CommandLine) -> None:
    """The group's counter, in a stand-in for its folder that goes with the run's last process."""
    group = cli.folder / "group"
    group.mkdir()
    (group / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    run = cli.command("sleep", "600")
    cli.kill_supervisor(run)
    placed = {"cgroup": f"../../..{group}"}
    run.state.write_text(json.dumps(record(run) | placed))
    adopt_orphans(cli.state)
    eventually(lambda: is_held(run.supervisor_lock), what="an adopter")
    os.kill(leader(run), signal.SIGKILL)
    found = cli.ended(run)
    assert (found["ending"]["memory_kills"], found["ending"]["signal"]) == (2, "SIGKILL")
    with suppress(OSError):
        (group / "memory.events").unlink()
    assert cli.json("diagnose", run.id)["diagnosis"]["class"] == "host_out_of_memory"
