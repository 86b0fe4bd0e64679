"""A paused run: who did it is recorded, it frees nothing, is no stall, and can be stopped."""

import os
import signal
import time
from types import SimpleNamespace

import pytest

from runners.cost.cost_reader import costs_of
from runners.host.procfs import marked_processes, process_state
from runners.lifecycle.control import pause as pausing
from runners.lifecycle.supervisor.processes import Found, RunProcesses
from runners.model.health import Condition
from runners.places.actions import PauseRuns
from runners.places.here import carry_out
from runners.state.runs import read_run
from tests.process.conftest import CommandLine, events, leader
from tests.support import eventually

# A leader with a worker below it in a session of its own, as torchrun has.
TREE = "echo ready; setsid sleep 300 & exec sleep 300"


def letters(run_id: str, but: int | None = None) -> set[str]:
    return {process_state(pid) for pid in marked_processes(run_id) if pid != but}


def test_all_of_it_is_paused_and_goes_on(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", TREE, ready="ready")
    eventually(lambda: len(marked_processes(run.id)) >= 2, what="its worker")
    done = cli.run("pause", run.id)
    assert "frees nothing" in done.stderr
    found = cli.status(run)
    assert (found["state"], process_state(leader(run))) == ("running", "T")
    assert found["paused"]["by"] and found["paused"]["since"]
    assert [event["by"] for event in events(run, "pause")] == [found["paused"]["by"]]
    cli.run("pause", run.id, exits=2)
    shown = cli.json("continue", run.id)
    assert shown["paused"] is None and not run.pause.exists()
    assert "T" not in letters(run.id)
    cli.run("continue", run.id, exits=2)


def test_what_somebody_else_paused_goes_on_too(cli: CommandLine) -> None:
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    os.killpg(os.getpgid(leader(run)), signal.SIGSTOP)
    found = eventually(lambda: cli.status(run)["paused"], what="that it is paused")
    assert found == {"by": None, "since": None}
    cli.run("continue", run.id)
    assert cli.status(run)["paused"] is None


def test_a_pause_that_was_ended_by_hand_is_not_ours_any_more(cli: CommandLine) -> None:
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    cli.run("pause", run.id)
    assert cli.status(run)["paused"]["by"]
    os.killpg(os.getpgid(leader(run)), signal.SIGCONT)
    eventually(lambda: cli.status(run)["paused"] is None)
    os.killpg(os.getpgid(leader(run)), signal.SIGSTOP)
    found = eventually(lambda: cli.status(run)["paused"], what="that it is paused again")
    assert found == {"by": None, "since": None}
    cli.run("continue", run.id)


def test_a_pause_says_what_is_paid_on_in_the_panel_too(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "3.60", "--since", "now")
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    (message,) = carry_out(cli.state, PauseRuns((run.id,))).messages
    shown = read_run(cli.state, run.id)
    rate = costs_of(cli.state, [shown]).of(shown).rate
    assert rate is not None and f"${rate:.2f}/h" in message


@pytest.mark.parametrize("ladder", ["[SIGTERM 1m]", "[stop-file 0.2s, SIGINT 1m]"])
def test_a_paused_run_stops_at_the_rung_it_heeds(cli: CommandLine, ladder: str) -> None:
    run = cli.command("sh", "-c", TREE, ready="ready", options=["--set", f"stop.ladder={ladder}"])
    cli.run("pause", run.id)
    found = cli.json("stop", run.id, "--wait")
    assert found["state"] == "stopped" and found["ending"]["signal"] != "SIGKILL"
    assert not run.pause.exists() and not marked_processes(run.id)


def test_several_are_paused_and_what_cannot_be_is_refused(cli: CommandLine) -> None:
    ended = cli.command("true")
    cli.ended(ended)
    live = [cli.command("sleep", "300") for _ in range(2)]
    for run in live:
        eventually(lambda run=run: cli.status(run)["state"] == "running")
    cli.run("pause", ended.id, *(run.id for run in live), exits=2)
    assert all(cli.status(run)["paused"] for run in live)
    assert {run["paused"] for run in cli.json("continue", *(run.id for run in live))} == {None}
    cli.run("drain", "on")
    waits = cli.launch("--gpus", "0", "--after", live[0].id, "--", "true")
    cli.run("pause", waits.id, exits=2)


def test_a_look_that_takes_long_is_not_the_program_s_time(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine: it was given up before anything was signalled."""
    late, find = [0.0], RunProcesses.find

    def slowly(processes: RunProcesses, thorough: bool = False) -> Found:
        late[0] = 60.0
        return find(processes, thorough)

    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + late[0], sleep=time.sleep, time=time.time
    )
    run = cli.command("sleep", "600")
    eventually(lambda: cli.status(run)["state"] == "running")
    monkeypatch.setattr(pausing, "time", clock)
    monkeypatch.setattr(RunProcesses, "find", slowly)
    paused = carry_out(cli.state, PauseRuns((run.id,)))
    assert not paused.refused and process_state(leader(run)) == "T"


def test_its_supervisor_s_death_changes_nothing(cli: CommandLine) -> None:
    run = cli.command("sleep", "300")
    eventually(lambda: cli.status(run)["state"] == "running")
    cli.run("pause", run.id)
    cli.kill_supervisor(run)
    assert cli.status(run)["paused"]
    cli.run("list")
    assert cli.status(run)["paused"]
    assert any(check["name"] == "paused" for check in cli.json("doctor", exits=None))
    cli.run("continue", run.id)
    assert cli.status(run)["paused"] is None


STEPS = "i=0; while :; do i=$((i + 1)); echo step $i loss 0.5; sleep 0.1; done"


def test_a_pause_is_no_stall_and_no_failure(cli: CommandLine) -> None:
    rules = ("--set", "on_stall={after: 8s}", "--set", "restart={times: 2}")
    run = cli.command("sh", "-c", STEPS, options=rules, ready="step 3")
    cli.run("pause", run.id)

    def condition() -> str | None:
        return (cli.status(run)["health"] or {}).get("condition")

    eventually(lambda: run.health.exists() and condition() == Condition.PAUSED, what="a paused run")
    for _ in range(8):  # a look comes six times in the rule's time
        before = run.health.stat().st_mtime_ns
        eventually(lambda seen=before: run.health.stat().st_mtime_ns > seen, what="another look")
    assert condition() == Condition.PAUSED
    cli.run("continue", run.id)
    eventually(lambda: condition() == Condition.PROGRESSING, what="that it goes on")
    assert not [alert for alert in events(run, "alert") if alert.get("condition")]
    assert (cli.status(run)["attempt"], cli.status(run)["state"]) == (1, "running")
