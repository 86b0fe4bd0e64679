"""Starting again after a failure, limits, and groups."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.state.layout import RunDirectory
from tests.command_text import NOT_TOGETHER
from tests.process.conftest import CommandLine, events, record
from tests.support import eventually

# Fails until it is given a checkpoint twice; notes what it was given.
FLAKY = (
    'echo "$*"; echo x >> count; echo w > $FRESNEL_RUN_DIR/step_$(wc -l < count).pt; [ $(wc '
    "-l < count) -ge 3 ]"
)
RESTART = ["restart={times: 4, backoff: 0.05s, arguments: ['--resume', '${checkpoint}']}"]


def sets(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


def test_it_starts_again_from_the_newest_checkpoint_and_keeps_every_output(
    cli: CommandLine,
) -> None:
    options = [*sets(*RESTART, "checkpoints=${run_dir}/*.pt"), "--follow"]
    done = cli.run("launch", "--gpus", "0", *options, "--", "sh", "-c", FLAKY, "train")
    (run_id,) = [entry.name for entry in cli.state.runs.iterdir()]
    run = cli.state.run(run_id)
    assert cli.status(run)["state"] == "done" and cli.status(run)["attempt"] == 3
    assert (run.path / "output.1.log").read_text() == "\n"
    assert (run.path / "output.2.log").read_text() == f"--resume {run.path}/step_1.pt\n"
    assert run.output.read_text() == f"--resume {run.path}/step_2.pt\n"
    assert done.stdout.startswith(
        f"\n--resume {run.path}/step_1.pt\n--resume {run.path}/step_2.pt\n"
    )
    assert [event["exit_code"] for event in events(run, "restart")] == [1, 1]


def test_it_gives_up_after_the_last_attempt_with_the_last_reason(cli: CommandLine) -> None:
    run = cli.launch(
        "--gpus", "0", *sets("restart={times: 2, backoff: 0.05s}"), "--", "sh", "-c", "exit 7"
    )
    ended = cli.ended(run)
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 7, 3)


def test_a_cause_that_stays_is_not_tried_again_unless_the_attempt_came_further(
    cli: CommandLine,
) -> None:
    fail = "echo \"FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'\"; exit 1"
    rule = sets("restart={times: 3, backoff: 0.05s}", "checkpoints=${run_dir}/*.pt")
    run = cli.launch("--gpus", "0", *rule, "--", "sh", "-c", fail)
    ended = cli.ended(run)
    assert (ended["state"], ended["attempt"]) == ("failed", 1)
    assert ended["ending"]["lasting"] and ended["ending"]["not_restarted"]
    # The first attempt leaves a checkpoint, the second one nothing more.
    written = "[ -e $FRESNEL_RUN_DIR/1.pt ] || echo weights > $FRESNEL_RUN_DIR/1.pt; "
    further = cli.launch("--gpus", "0", *rule, "--", "sh", "-c", written + fail)
    ended = cli.ended(further)
    assert (ended["state"], ended["attempt"]) == ("failed", 2)
    assert ended["ending"]["not_restarted"]


@pytest.mark.parametrize(
    ("says", "code", "attempts"),
    [
        ("error: train.csv: psr has shape (24, 24, 24)", 2, 1),
        ("train.py: error: batch of 48 does not divide", 2, 1),
        ("error: the connection was lost", 1, 3),
        ("connection lost", 2, 3),
    ],
)
def test_settings_that_a_program_refuses_are_not_tried_again(
    cli: CommandLine, says: str, code: int, attempts: int
) -> None:
    rule = sets("restart={times: 2, backoff: 0.05s}")
    run = cli.launch("--gpus", "0", *rule, "--", "sh", "-c", f"echo '{says}'; exit {code}")
    ended = cli.ended(run)
    assert (ended["state"], ended["attempt"]) == ("failed", attempts)
    assert bool(ended["ending"].get("not_restarted")) == (attempts == 1)
    if attempts == 1:
        assert ended["ending"]["diagnosis"] == "settings_refused"


def test_a_stop_that_was_asked_for_is_never_followed_by_a_restart(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; sleep 300", options=sets("restart=5"), ready="up")
    cli.run("stop", run.id, "--wait")
    assert (cli.status(run)["state"], cli.status(run)["attempt"]) == ("stopped", 1)
    paused = cli.command(
        "sh", "-c", "echo up; exit 1", options=sets("restart={times: 5, backoff: 1h}"), ready="up"
    )
    eventually(lambda: "attempt 2 of 6" in str(cli.status(paused)["reason"]))
    cli.run("stop", paused.id, "--wait")
    assert cli.status(paused)["state"] == "stopped"


def test_an_adopted_run_starts_again_too(cli: CommandLine) -> None:
    go = cli.folder / "go"
    script = (
        "echo $SECRET_WORD; until [ -e go ]; do sleep 0.05; done; [ -e again ] || { "
        "touch again; exit 1; }"
    )
    run = cli.command(
        "sh",
        "-c",
        script,
        options=sets("restart={times: 1, backoff: 0.05s}"),
        ready="xyzzy",
        SECRET_WORD="xyzzy",
    )
    cli.kill_supervisor(run)
    cli.run("list")
    eventually(lambda: events(run, "adopted"))
    go.touch()
    assert cli.ended(run)["state"] == "done"
    assert run.output.read_text() == "xyzzy\n", "the second attempt has the first one's environment"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("limits.time=3s", "time limit of 3 s"), ("limits.cost=0.0017", "cost limit of $0.0017")],
)
def test_limits_end_a_run_by_its_ladder(cli: CommandLine, limit: str, reason: str) -> None:
    options = [*sets(limit), "--price", "1.99", "--gpus", "1"]
    run = cli.launch(
        *(*options, "--", "sh", "-c", "trap 'echo saved; exit 0' INT; sleep 300 & wait"),
        FRESNEL_GPUS="sim:1xMI300X",
    )
    ended = cli.ended(run)
    assert ended["state"] == "stopped" and reason in ended["reason"]
    assert run.output.read_text() == "saved\n"
    assert [event["rung"] for event in events(run, "stop")] == ["SIGINT"]


def test_what_a_cost_limit_limits_without_a_session_is_said(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xMI300X")
    options = (*sets("limits.cost=5"), "--price", "1.99")
    planned = cli.json("plan", *options, "--gpus", "1", "--", "true")
    assert planned["limit_s"] == pytest.approx(5 / 1.99 * 3600)
    assert any("limits.cost" in note and "would cost" in note for note in planned["notes"])
    planned = cli.json("plan", *options, "--gpus", "0", "--", "true")
    assert planned["limit_s"] is None
    assert any("limits.cost" in note and "nothing" in note for note in planned["notes"])


def test_a_cost_limit_without_a_price_is_wrong_input(cli: CommandLine) -> None:
    refused = cli.run("launch", "--gpus", "0", *sets("limits.cost=1"), "--", "true", exits=2)
    assert "no price" in refused.stderr


@pytest.fixture
def both(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xH100")
    folder = cli.folder / "presets"
    folder.mkdir()
    text = (
        "launcher: command\nshell: true\ncommand: 'echo on ${gpu_ids}; exec sleep "
        "300'\ngpus: {ids: %s}\n"
    )
    (folder / "left.yaml").write_text(text % "0-6")
    (folder / "right.yaml").write_text(text % "7")
    (folder / "both.yaml").write_text("runs:\n  - preset: left\n  - {preset: right, name: r}\n")
    return folder


def test_a_group_starts_together_and_is_stopped_by_its_name(cli: CommandLine, both: Path) -> None:
    ids = cli.run("launch", "both").stdout.split()
    runs = [cli.state.run(run_id) for run_id in ids]
    for run, shown in zip(runs, ("on 0,1,2,3,4,5,6\n", "on 7\n"), strict=True):
        eventually(lambda run=run, shown=shown: run.output.read_text() == shown)
    groups = {cli.status(run)["group"] for run in runs}
    assert len(groups) == 1
    cli.run("stop", "both", "--wait")
    assert [cli.status(run)["state"] for run in runs] == ["stopped", "stopped"]


def test_a_group_starts_all_or_none(cli: CommandLine, both: Path) -> None:
    blocker = cli.launch("--gpu-ids", "7", "--", "sleep", "300")
    denied = cli.run("launch", "both", "--no-queue", exits=4)
    assert blocker.id in denied.stderr
    assert [entry.name for entry in cli.state.runs.iterdir()] == [blocker.id]
    waiting = [cli.state.run(run_id) for run_id in cli.run("launch", "both").stdout.split()]
    assert [cli.status(run)["state"] for run in waiting] == ["queued", "queued"]
    cli.run("stop", blocker.id, "--wait")
    for run in waiting:
        eventually(lambda run=run: cli.status(run)["state"] == "running")


def test_a_group_that_never_fits_is_denied_by_plan_and_launch_alike(
    cli: CommandLine, both: Path
) -> None:
    (both / "bad.yaml").write_text("runs:\n  - preset: left\n  - {preset: right, gpus: 2}\n")
    refused = cli.run("launch", "bad", exits=4).stderr
    assert f"{NOT_TOGETHER} 8 GPUs" in refused
    plans = json.loads(cli.run("plan", "bad", "--json", exits=4).stdout)
    assert len(plans) == 2 and all(plan["denied"] in refused for plan in plans)
    said = cli.run("plan", "bad", exits=4)
    summary, advice = said.stderr.splitlines()
    assert plans[0]["denied"] in said.stdout and advice in refused
    assert summary == f"0 start now · 2 cannot start: {plans[0]['denied']}"
    assert list(cli.state.runs.iterdir()) == []


def test_a_group_that_waits_names_its_members(cli: CommandLine, both: Path) -> None:
    cli.launch("--gpu-ids", "7", "--", "sleep", "300")
    waits = [plan["waits"] for plan in cli.json("plan", "both")]
    assert waits[0].startswith("starts together with r: ") and "held by" in waits[1]
    assert not any("~" in words for words in waits)


def test_overrides_name_the_member(cli: CommandLine, both: Path) -> None:
    plans = cli.json("plan", "both", "--set", "r.gpus=0", "--set", "left.priority=3")
    assert [plan["spec"]["priority"] for plan in plans] == [3, 0]
    assert [len(plan["gpus"]) for plan in plans] == [7, 0]
    assert "r, " not in cli.run("launch", "both", "--set", "x.gpus=0", exits=2).stdout


# A supervisor that comes to a processor again an hour after its program has begun.
LATE = """
import sys, time
from types import SimpleNamespace
from runners.lifecycle.supervisor import attempt, attempt_start, supervisor
start = attempt.Attempt.start
def start_late(*given):
    start(*given)
    attempt_start.time = SimpleNamespace(time=lambda: time.time() + 3600)
attempt.Attempt.start = start_late
sys.argv.pop(1)
supervisor.main()
"""


def test_what_a_program_writes_at_once_is_of_its_run(
    cli: CommandLine, run_with: Callable[[str, int, str], RunDirectory]
) -> None:
    """Its checkpoints are those since its start, which is recorded when it already runs."""
    run = run_with(LATE, 0, "echo weights > a.pt")
    cli.ended(run)
    assert record(run)["started"] <= (cli.folder / "a.pt").stat().st_mtime
