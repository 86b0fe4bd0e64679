"""The queue: waiting supervisors, granted in order, and what one is told while it waits."""

import fcntl
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from runners.host.identity import user_name
from runners.lifecycle.control import start
from runners.lifecycle.launch.dispatch import dispatch, set_drain
from runners.model.endings import EndingCause, ending_text
from runners.model.run_ids import by_names
from runners.model.states import State
from runners.presets.load import command_spec
from runners.state.layout import RunDirectory
from runners.state.runs import list_run_ids, read_run
from tests.command_text import never_after
from tests.process.conftest import CommandLine, events, record, supervisor_of
from tests.support import eventually, files_below
from tui.agent.snapshots import place_snapshot
from tui.panel.widgets.run_lines import RunLines
from tui.snapshot.feed import SnapshotFeed
from tui.views.runs.queue_text import queue_lines
from tui.views.runs.run_text import no_gpus

SECRET = "hunter2-do-not-write"
MANY = 16
"""Launches at once: each of eight GPUs goes from hand to hand."""


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")


def state_of(cli: CommandLine, run: RunDirectory) -> tuple[State, str]:
    found = read_run(cli.state, run.id)
    return found.state, found.reason


def release(cli: CommandLine, run: RunDirectory) -> None:
    (cli.folder / run.id).touch()


def test_a_launch_says_why_it_waits_in_the_words_of_its_plan(cli: CommandLine) -> None:
    """By the names of runs: nobody knows their ids by heart."""
    cli.launch("--gpus", "2", "--name", "holder", "--", "sleep", "300")
    words = ("--gpus", "1", "--", "true")
    plan = cli.run("plan", *words).stdout
    (planned,) = [line for line in plan.splitlines() if line.startswith("GPUs ")]
    reason = planned.partition("queued: ")[2]
    assert "holder" in reason and "-holder-" not in reason
    assert f": {reason}\n" in cli.run("launch", *words).stderr


def holder(cli: CommandLine, *options: str) -> RunDirectory:
    """A run that ends when `release` says so."""
    return cli.launch(
        *options, "--", "sh", "-c", "until [ -e $FRESNEL_RUN_ID ]; do sleep 0.05; done"
    )


def test_a_run_waits_says_why_and_starts_on_the_gpu_that_comes_free(cli: CommandLine) -> None:
    first = holder(cli, "--gpus", "2")
    queued = cli.run(
        "launch",
        "--gpus",
        "1",
        "--",
        "sh",
        "-c",
        "echo on $CUDA_VISIBLE_DEVICES of ${FRESNEL_RUN_ID}",
    )
    waiting = cli.state.run(queued.stdout.strip())
    state, reason = state_of(cli, waiting)
    assert "0 of 2 free" in reason and by_names(reason) in queued.stderr
    assert state is State.QUEUED and first.id in reason
    assert cli.json("status", waiting.id)["state"] == "queued"
    machine = {row["name"]: row for row in cli.json("compare", first.id, waiting.id)["machine"]}
    queued_plan = read_run(cli.state, waiting.id).plan
    assert queued_plan is not None and queued_plan.waits_for_gpus
    assert machine["GPUs"]["values"][1] == no_gpus(queued_plan) != "none (CPU)"
    release(cli, first)
    assert cli.ended(waiting)["state"] == "done"
    assert waiting.output.read_text() == f"on 0 of {waiting.id}\n"
    assert cli.status(waiting)["gpus"] == [0]


def test_who_holds_the_gpus_is_called_as_it_is_now(cli: CommandLine) -> None:
    """In rows here and over a link, and in the details: as it was renamed, in whatever letters."""
    first = holder(cli, "--gpus", "2", "--name", "before")
    cli.run("rename", first.id, "実験 [α]")
    waiting = cli.launch("--gpus", "1", "--", "true")
    assert first.id in state_of(cli, waiting)[1]
    snapshot = SnapshotFeed(cli.state, read_only=True).first_snapshot(60.0)
    assert snapshot is not None
    lines = RunLines()
    lines.show(snapshot)
    views = {view.run.id: view for view in snapshot.runs}
    said = [
        lines.live[waiting.id].remark,
        place_snapshot(snapshot).runs[waiting.id].remark,
        queue_lines(views[waiting.id], list(views.values()), snapshot.leases)[0],
    ]
    assert all("実験 [α]" in text and first.id not in text for text in said), said
    release(cli, first)
    cli.ended(waiting)


def test_a_waiting_run_is_stopped_at_once_and_never_starts(cli: CommandLine) -> None:
    first = holder(cli, "--gpus", "2")
    waiting = cli.launch("--gpus", "1", "--", "echo", "never")
    cli.run("stop", waiting.id, "--wait")
    ended = cli.status(waiting)
    assert (ended["state"], ended["started"]) == ("cancelled", None)
    cancelled = {"cause": EndingCause.CANCELLED, "by": user_name()}
    assert cancelled.items() <= ended["ending"].items()
    assert ended["reason"] == ending_text(cancelled)
    assert waiting.output.read_text() == ""
    release(cli, first)


def test_priority_and_order(cli: CommandLine) -> None:
    first = holder(cli, "--gpus", "2")
    waiting = [
        cli.launch("--gpus", "2", "--priority", priority, "--", "sh", "-c", "date +%s%N")
        for priority in "0051"
    ]

    def listed() -> list[str]:
        return [run["id"] for run in cli.json("list") if run["state"] == "queued"]

    eventually(
        lambda: listed() == [waiting[i].id for i in (2, 3, 0, 1)],
        what="rows in the order in which they will start",
    )
    release(cli, first)
    ended = [cli.ended(run) for run in waiting]
    assert [run["state"] for run in ended] == ["done"] * 4
    stamps = {i: int(run.output.read_text()) for i, run in enumerate(waiting)}
    assert sorted(stamps, key=stamps.get) == [2, 3, 0, 1]  # type: ignore[arg-type]


def test_no_queue_is_denied(cli: CommandLine) -> None:
    first = holder(cli, "--gpus", "2")
    denied = cli.run("launch", "--no-queue", "--gpus", "1", "--", "true", exits=4)
    assert first.id in denied.stderr
    assert list_run_ids(cli.state) == [first.id]
    release(cli, first)


def test_a_waiting_supervisor_that_is_killed_is_adopted_and_holds_nobody_up(
    cli: CommandLine,
) -> None:
    first = holder(cli, "--gpus", "2")
    lost = cli.launch("--gpus", "2", "--", "true")
    behind = cli.launch("--gpus", "1", "--", "true")
    cli.kill_supervisor(lost)
    release(cli, first)
    assert cli.ended(behind)["state"] == "done"
    cli.run("list")
    assert cli.ended(lost)["state"] == "done", "it went on waiting in its place"


def test_when_the_holders_supervisor_is_killed_the_first_in_line_finds_out_for_itself(
    cli: CommandLine,
) -> None:
    first = holder(cli, "--gpus", "2")
    waiting = cli.launch("--gpus", "1", "--", "true")
    cli.kill_supervisor(first)
    release(cli, first)
    assert cli.ended(waiting)["state"] == "done"


def test_chains_start_after_their_run_or_fail_with_it(cli: CommandLine) -> None:
    first = holder(cli, "--gpus", "0", "--name", "first")
    after = cli.launch("--gpus", "0", "--after", "first", "--", "echo", "after")
    never = cli.launch("--gpus", "0", "--after", "first:failure", "--", "echo", "never")
    assert state_of(cli, after) == (State.QUEUED, f"waits for the end of {first.id} (success)")
    release(cli, first)
    assert cli.ended(after)["state"] == "done"
    failed = cli.ended(never)
    assert failed["state"] == "failed" and failed["ending"]["cause"] == EndingCause.REFUSED
    assert never_after("failure") in failed["reason"]
    missing = cli.run("launch", "--gpus", "0", "--after", "nobody", "--", "true", exits=3)
    assert "nobody" in missing.stderr


def test_drain_lets_what_runs_finish_and_starts_nothing(cli: CommandLine) -> None:
    running = holder(cli, "--gpus", "1")
    cli.run("drain", "on")
    waiting = cli.launch("--gpus", "1", "--", "true")
    assert state_of(cli, waiting)[0] is State.QUEUED
    assert "draining since" in state_of(cli, waiting)[1]
    release(cli, running)
    assert cli.ended(running)["state"] == "done"
    assert state_of(cli, waiting)[0] is State.QUEUED
    cli.run("drain", "off")
    assert cli.ended(waiting)["state"] == "done"


def test_a_waiting_run_keeps_its_secrets_in_memory_and_gets_them_at_its_start(
    cli: CommandLine, tmp_path: Path
) -> None:
    preset = tmp_path / "secret.yaml"
    preset.write_text(
        "launcher: command\nshell: true\ncommand: 'echo got $HF_TOKEN and $PLAIN on ${gpu_ids}'\n"
        f"environment: {{HF_TOKEN: {SECRET}, PLAIN: '${{HOME}}/x'}}\ngpus: 2\n"
    )
    first = holder(cli, "--gpus", "1")
    waiting = cli.launch(str(preset), HOME="/home/of/anna")
    assert state_of(cli, waiting)[0] is State.QUEUED
    release(cli, first)
    assert cli.ended(waiting)["state"] == "done"
    assert waiting.output.read_text() == f"got {SECRET} and /home/of/anna/x on 0,1\n"
    written = files_below(cli.state.root)
    assert [path for path in written if SECRET.encode() in written[path]] == [waiting.output]


def test_a_program_that_vanished_while_its_run_waited_is_a_failure_in_words(
    cli: CommandLine,
) -> None:
    script = cli.folder / "train.sh"
    script.write_text("#!/bin/sh\necho hi\n")
    script.chmod(0o755)
    first = holder(cli, "--gpus", "2")
    waiting = cli.launch("--gpus", "1", "--", "./train.sh")
    script.unlink()
    release(cli, first)
    ended = cli.ended(waiting)
    assert ended["state"] == "failed" and "./train.sh" in ended["reason"]


def test_a_grant_that_comes_before_the_supervisor_is_spelled_out_all_the_same(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the launch's writing and its supervisor's first look, a GPU may come free and be
    given to it.
    """
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xMI300X")
    first = holder(cli, "--gpus", "1")
    real = start.spawn_supervisor

    def spawn_late(run: RunDirectory, environment: dict[str, str], locks: list[int]) -> None:
        release(cli, first)
        eventually(
            lambda: json.loads(run.plan.read_text())["phase"] != "queued" or dispatch(cli.state)
        )
        real(run, environment, locks)

    monkeypatch.setattr(start, "spawn_supervisor", spawn_late)
    script = 'echo "sees $HIP_VISIBLE_DEVICES"'
    spec = command_spec(["sh", "-c", script], ["gpus=1"], "late")
    (run,) = start.start_together(cli.state, [spec])
    directory = cli.state.run(run.id)
    assert cli.ended(directory)["state"] == "done"
    assert directory.output.read_text() == "sees 0\n"
    assert json.loads(directory.plan.read_text())["environment"]["HIP_VISIBLE_DEVICES"] == "0"


def test_many_at_once_for_eight_gpus_all_run_in_order_never_two_on_one_and_are_recorded(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xMI300X")
    cli.run("gpus")
    begun, ended = 'echo "$HIP_VISIBLE_DEVICES $(date +%s%N)"', "date +%s%N"
    script = f"{begun}; flock -s gate true; sleep 0.2; {ended}; exit"
    with (cli.folder / "gate").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        children = [
            cli.begin("launch", "--gpus", "1", "--", "sh", "-c", f"{script} {number % 2}")
            for number in range(MANY)
        ]
        outputs = [child.communicate()[0].decode().strip() for child in children]
        assert [child.returncode for child in children] == [0] * MANY
    runs = [cli.state.run(run_id) for run_id in outputs]
    assert len({run.id for run in runs}) == MANY
    assert [cli.ended(run)["state"] for run in runs] == ["done", "failed"] * (MANY // 2)
    assert [record(run)["exit_code"] for run in runs] == [0, 1] * (MANY // 2)
    spans: dict[str, list[tuple[int, int]]] = {}
    granted = []
    for run in runs:
        gpu, first, last = run.output.read_text().split()
        spans.setdefault(gpu, []).append((int(first), int(last)))
        created = json.loads(run.plan.read_text())["origin"]["created"]
        granted.append(
            (created, next((event["time"] for event in events(run, "granted")), created))
        )
    overlaps = sum(
        a[1] > b[0]
        for used in spans.values()
        for a, b in zip(sorted(used), sorted(used)[1:], strict=False)
    )
    assert set(spans) == {str(i) for i in range(8)}
    assert overlaps == 0
    in_order = [when for _, when in sorted(granted)]
    assert in_order == sorted(in_order), "who came first is given a GPU first"
    print(f"{MANY} launches, 8 GPUs: {overlaps} overlaps, all in order")


def test_leases_pass_from_hand_to_hand_under_kills(cli: CommandLine) -> None:
    """Waiting and running supervisors are killed while the queue moves: nobody is lost, nobody
    shares.
    """
    runs = [
        cli.launch("--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 0.4")
        for _ in range(6)
    ]
    for run in runs[:3]:
        # The first may have come to its end meanwhile.
        eventually(lambda run=run: supervisor_of(run) or record(run).get("ended"))
        if pid := supervisor_of(run):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        cli.run("list")
    states = [cli.ended(run)["state"] for run in runs]
    assert set(states) <= {"done", "failed"}
    assert states[3:] == ["done"] * 3
    assert not [event for run in runs[3:] for event in events(run, "alert")]


def test_drain_survives_in_the_state_folder(cli: CommandLine) -> None:
    set_drain(cli.state, True)
    # By itself it only shows: nothing is switched by asking.
    assert cli.json("drain")["drained"] is True
    assert cli.json("drain")["drained"] is True
    set_drain(cli.state, False)
    assert cli.json("drain", "status") == {"drained": False, "since": None}
    assert eventually(lambda: not cli.state.drain.exists())
