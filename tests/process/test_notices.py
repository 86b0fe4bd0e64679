"""Notices without any panel: the settings' command and webhook hear of ends and alerts."""

import json
import os
import signal
from pathlib import Path

from runners.lifecycle.launch.adopt import adopt_orphans
from runners.model.endings import EndingCause, ending_text
from runners.state.layout import RunDirectory
from tests.process.conftest import CommandLine, Receiver, events, record
from tests.support import eventually

OVERRUN = "will cost $9.00 at its current pace"


def settings(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(text)


def watched_run(cli: CommandLine, tmp_path: Path, receiver: Receiver) -> RunDirectory:
    """A run that goes on, of whose alerts and stop the webhook is told."""
    url = f"http://127.0.0.1:{receiver.server_port}"
    settings(tmp_path, f"notices: {{on: [alert, stopped], webhook: '{url}'}}\n")
    return cli.command("sleep", "300")


def test_a_failed_run_reaches_the_webhook_and_the_command(
    cli: CommandLine, tmp_path: Path, receiver: Receiver
) -> None:
    heard = tmp_path / "heard"
    settings(
        tmp_path,
        f"notices:\n  webhook: http://127.0.0.1:{receiver.server_port}/hook\n"
        f'  command: printf \'%s|%s\' "$FRESNEL_NOTICE_NAME" "$FRESNEL_NOTICE_TEXT" >{heard}\n',
    )
    run = cli.launch("--gpus", "0", "--name", "mine", "--", "sh", "-c", "exit 3")
    eventually(lambda: len(events(run, "notice")) == 2)
    (got,) = receiver.got
    assert (got["kind"], got["run"], got["name"], got["message"]) == (
        "failed",
        run.id,
        "mine",
        "failed: exit code 3",
    )
    assert str(got["text"]).startswith("mine on ") and got["content"] == got["text"]
    assert heard.read_text() == "mine|failed: exit code 3"
    assert [event["result"] for event in events(run, "notice")] == ["exit code 0", "HTTP 200"]


def test_only_what_is_asked_for_is_told_and_an_alert_is(
    cli: CommandLine, tmp_path: Path, receiver: Receiver
) -> None:
    settings(
        tmp_path, f"notices: {{on: [alert], webhook: 'http://127.0.0.1:{receiver.server_port}'}}\n"
    )
    run = cli.launch("--gpus", "0", "--set", "limits.time=0.2s", "--", "sleep", "300")
    assert cli.ended(run)["state"] == "stopped"
    eventually(lambda: receiver.got)
    assert [(got["kind"], got["message"]) for got in receiver.got] == [
        ("alert", cli.status(run)["alerts"][0]["text"])
    ]
    limit = {"cause": EndingCause.LIMIT, "seconds": 0.2}
    assert limit.items() <= cli.status(run)["ending"].items()
    assert receiver.got[0]["message"] == ending_text(limit)


def test_an_overrun_that_a_panel_or_guard_found_is_told_once(
    cli: CommandLine, tmp_path: Path, receiver: Receiver
) -> None:
    run = watched_run(cli, tmp_path, receiver)
    run.overrun.write_text(json.dumps({"text": OVERRUN}))
    for _ in range(2):
        os.kill(record(run)["supervisor_pid"], signal.SIGUSR1)
        eventually(lambda: events(run, "notice"))
    cli.run("stop", run.id, "--force", "--wait")
    eventually(lambda: len(receiver.got) == 2)
    assert [got["kind"] for got in receiver.got] == ["alert", "stopped"]
    assert receiver.got[0]["message"] == OVERRUN


def test_an_overrun_found_while_nobody_supervised_is_told_once_by_who_adopts_the_run(
    cli: CommandLine, tmp_path: Path, receiver: Receiver
) -> None:
    run = watched_run(cli, tmp_path, receiver)
    for number in (1, 2):
        cli.kill_supervisor(run)
        if number == 1:
            run.overrun.write_text(json.dumps({"text": OVERRUN}))
        adopt_orphans(cli.state)
        eventually(lambda number=number: len(events(run, "adopted")) == number)
        eventually(lambda: receiver.got, what="the alert")
    cli.run("stop", run.id, "--force", "--wait")
    eventually(lambda: receiver.got[-1]["kind"] == "stopped")
    assert [got["message"] for got in receiver.got if got["kind"] == "alert"] == [OVERRUN]


def test_a_webhook_that_refuses_and_settings_that_are_wrong_are_said(
    cli: CommandLine, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answer = 403
    settings(tmp_path, f"notices: {{webhook: 'http://127.0.0.1:{receiver.server_port}'}}\n")
    run = cli.launch("--gpus", "0", "--", "true")
    assert eventually(lambda: events(run, "notice"))[0]["result"] == "HTTP 403"
    settings(tmp_path, "notices:\n  webhok: x\n")
    run = cli.launch("--gpus", "0", "--", "true")
    said = eventually(lambda: events(run, "notice"))[0]["result"]
    assert "settings.yaml:2: notices.webhok" in said and "webhook" in said
    assert cli.ended(run)["state"] == "done"


def test_without_settings_nobody_is_told(cli: CommandLine) -> None:
    run = cli.launch("--gpus", "0", "--", "false")
    cli.ended(run)
    eventually(lambda: not (cli.state.live / run.id).exists())
    assert not events(run, "notice")
