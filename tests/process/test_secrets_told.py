"""Planted secrets in what leaves the machine by itself, and in what others see of our processes."""

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import yaml

from runners.lifecycle.supervisor.kept_environment import forget_all, kept_environment
from runners.state.layout import RunDirectory, config_dir
from tests.process.conftest import CommandLine, Receiver, events, record
from tests.process.test_reboot import reboot
from tests.secret_kinds import Secret, secrets_of
from tests.support import eventually, files_below

# Fails with an error that has everything in it that it was given, as many clients do.
SAYS_ALL = (
    "import os, sys\n"
    "for line in os.environ['SAID'].splitlines():\n"
    "    print(f'RuntimeError: {line}', flush=True)\n"
    "raise RuntimeError(' '.join([*sys.argv[1:], line]))\n"
)
HOOK = Secret("hook", "SEKRETHOOK", "SEKRETHOOK")
_AT_ONCE = 6
"""So many secrets a run says at its end: a report has its last lines."""


def _texts(run: RunDirectory) -> dict[str, str]:
    """Everything in the run's folder but what its program itself wrote."""
    return {
        path.name: content.decode("utf-8", "replace")
        for path, content in files_below(run.path).items()
        if not path.name.startswith("output.")
    }


def _found(texts: dict[str, str], secrets: list[Secret]) -> list[tuple[str, str, str]]:
    return [
        (place, secret.name, secret.bare)
        for place, text in texts.items()
        for secret in secrets
        if secret.bare in text
    ]


def _shown(cli: CommandLine, run: RunDirectory) -> dict[str, str]:
    """What every command that tells of an ending prints, and a report that is given on."""
    report = cli.folder / f"{run.id}.html"
    commands = (
        *(["status", run.id], ["status", run.id, "--json"], ["diagnose", run.id]),
        *(["list", "--all"], ["list", "--all", "--json"], ["report", run.id, "-o", str(report)]),
    )
    shown = dict(zip(map(" ".join, commands), cli.run_each(commands), strict=True))
    return {**shown, "report": report.read_text()}


def _has_told(run: RunDirectory) -> bool:
    return len(events(run, "notice")) == 2


def test_an_error_with_secrets_in_it_is_told_without_them(
    cli: CommandLine, tmp_path: Path, receiver: Receiver
) -> None:
    given = [secret for secret in secrets_of(40) if secret.value != secret.bare]
    named = [secret for secret in secrets_of(41) if secret.value == secret.bare]
    heard = tmp_path / "heard"
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "settings.yaml").write_text(
        f"notices:\n  webhook: http://127.0.0.1:{receiver.server_port}/hooks/{HOOK.bare}\n"
        f'  command: echo "$FRESNEL_NOTICE_TEXT" >>{heard}\n'
    )
    (cli.folder / "says.py").write_text(SAYS_ALL)
    words = [f"--{secret.name}={secret.value}" for secret in named]
    for number in range(0, len(given), _AT_ONCE):
        said = "\n".join(secret.value for secret in given[number : number + _AT_ONCE])
        words = [f"--{s.name}={s.value}" for s in named[number : number + _AT_ONCE]]
        run = cli.launch("--gpus", "0", "--", "python3", "says.py", *words, SAID=said)
        assert cli.ended(run)["state"] == "failed"
        assert all(s.bare in run.output.read_text() for s in given[number : number + _AT_ONCE])
        eventually(partial(_has_told, run), what="both notices")
        shown = {**_texts(run), **_shown(cli, run)}
        shown |= {"webhook": json.dumps(receiver.got), "command": heard.read_text()}
        assert not _found(shown, [*given, *named, HOOK])


def test_no_process_of_ours_has_a_secret_in_its_command_line(cli: CommandLine) -> None:
    secrets = secrets_of(42)
    third = len(secrets) // 3
    preset = {
        "launcher": "command",
        "command": ["sh", "-c", "exit 1", "train", *(s.value for s in secrets[:third])],
        "gpus": 0,
        "environment": {s.name.replace("-", "_"): s.value for s in secrets[third : 2 * third]},
        "parameters": {
            s.name.replace("-", "_"): {"value": s.value, "type": "str", "flag": ""}
            for s in secrets[2 * third :]
        },
        "restart": {"times": 2, "backoff": "0.3s"},
    }
    (cli.folder / "presets").mkdir()
    (cli.folder / "presets" / "own.yaml").write_text(yaml.safe_dump(preset))
    (config_dir()).mkdir(parents=True, exist_ok=True)
    (config_dir() / "settings.yaml").write_text("notices: {command: 'true'}\n")
    child = cli.begin("launch", "own", "--wait")
    seen: set[bytes] = set()
    while child.poll() is None:
        seen |= _command_lines()
    assert child.returncode == 1 and any(b"supervisor" in line for line in seen)
    # The program's own words are the program's, and its waiter's, who starts it with them.
    ours = [line for line in seen if b"-c\0exit 1\0train\0" not in line]
    leaks = [line for line in ours for s in secrets if s.bare.encode() in line]
    assert not leaks


def _command_lines() -> set[bytes]:
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                found.add((process / "cmdline").read_bytes())
    return found


def _environment(value: str) -> list[str]:
    return ["--set", f"environment.API_TOKEN={value}"]


PRINTS = ("sh", "-c", 'echo "got $API_TOKEN"; test -e hold && sleep 300; exit 0')


def test_a_run_is_launched_again_with_another_secret(cli: CommandLine) -> None:
    first = cli.launch("--gpus", "0", *_environment("hush-hush-1"), "--", *PRINTS)
    assert cli.ended(first)["state"] == "done"
    refused = cli.run("launch", "--again", first.id, exits=2).stderr
    assert "API_TOKEN" in refused and "--set environment.API_TOKEN=" in refused
    again = cli.launch("--again", first.id, *_environment("hush-hush-2"))
    assert cli.ended(again)["state"] == "done"
    assert again.output.read_text() == "got hush-hush-2\n"
    inherited = cli.launch("--again", first.id, API_TOKEN="hush-hush-3")
    assert cli.ended(inherited)["state"] == "done"
    assert inherited.output.read_text() == "got hush-hush-3\n"
    for run in (first, again, inherited):
        assert not any("hush" in text for text in _texts(run).values())


def _forget(run: RunDirectory) -> None:
    """What a reboot does to memory."""
    forget_all(run)
    assert kept_environment(run) is None


def test_a_secret_that_a_reboot_took_from_a_queued_run_is_named_with_what_to_do(
    cli: CommandLine,
) -> None:
    first = cli.launch("--gpus", "0", "--", "sleep", "300")
    after = ["--gpus", "0", "--after", f"{first.id}:any", *_environment("hush-hush-4")]
    queued = cli.launch(*after, "--", *PRINTS)
    eventually(lambda: cli.status(queued)["state"] == "queued", what="a run that waits")
    reboot(cli, queued)
    _forget(queued)
    cli.run("service", "boot")
    cli.run("stop", first.id, "--force", "--wait", exits=None)
    ended = cli.ended(queued)
    assert ended["state"] == "failed" and "API_TOKEN" in ended["reason"]
    _follow_advice(cli, ended["reason"], queued)


def test_a_secret_that_is_gone_before_a_restart_is_named_with_what_to_do(cli: CommandLine) -> None:
    rule = "restart={times: 1, backoff: 300s}"
    run = cli.launch(
        *("--gpus", "0", "--set", rule, *_environment("hush-hush-5"), "--"),
        *("sh", "-c", 'echo "got $API_TOKEN"; [ -e fixed ]'),
    )
    eventually(lambda: record(run).get("next_attempt") == 2, what="a run that is to start again")
    cli.kill_supervisor(run)
    _forget(run)
    changed = {**record(run), "next_at": 0.0}
    run.state.write_text(json.dumps(changed))
    cli.run("service", "boot")
    ended = cli.ended(run)
    assert ended["state"] == "failed"
    (cli.folder / "fixed").touch()
    _follow_advice(cli, ended["reason"], run)


def _follow_advice(cli: CommandLine, reason: str, run: RunDirectory) -> None:
    """The command in a reason, with a value in place of its dots, launches the run."""
    _, begin, command = reason.partition("fresnel-tui ")
    assert begin and run.id in command, reason
    again = cli.launch(*command.replace("…", "hush-hush-9").split()[1:])
    assert cli.ended(again)["state"] == "done"
    assert again.output.read_text() == "got hush-hush-9\n"
    assert not any("hush" in text for text in {**_texts(run), **_texts(again)}.values())
