"""`--show-secrets`: the owner at a terminal sees what a run really has; a pipe and JSON never."""

import pytest

from runners.model.kept_secrets import MASK
from runners.state.layout import RunDirectory
from tests.process.conftest import COMMAND, CommandLine
from tests.support import files_below
from tests.terminal import Terminal

IN_ENVIRONMENT, IN_COMMAND = "hush-hush-6", "hush-hush-7"
LAUNCH = ["--gpus", "0", "--set", f"environment.API_TOKEN={IN_ENVIRONMENT}"]
PROGRAM = ["sh", "-c", "echo up; while [ ! -e over ]; do sleep 0.1; done", "train"]
PROGRAM = [*PROGRAM, f"--token={IN_COMMAND}"]


def _on_terminal(cli: CommandLine, *words: str) -> str:
    """What a command prints on a terminal, its lines joined: they may be wrapped."""
    script = 'cd "$0" && "$@"; echo "ended: $?"; sleep 60'
    terminal = Terminal(["sh", "-c", script, str(cli.folder), *COMMAND, *words], 400, 100)
    try:
        assert terminal.wait_for(r"ended: (\d+)")[1] == "0", terminal.text
        return terminal.text
    finally:
        terminal.close()


def _files(run: RunDirectory) -> str:
    return b"".join(files_below(run.home.root).values()).decode("utf-8", "replace")


@pytest.fixture
def running(cli: CommandLine) -> RunDirectory:
    return cli.command(*PROGRAM, options=LAUNCH[2:], ready="up")


def test_status_on_a_terminal_shows_what_is_in_memory_and_says_what_is_gone(
    cli: CommandLine, running: RunDirectory
) -> None:
    plain = _on_terminal(cli, "status", running.id)
    assert MASK in plain and IN_ENVIRONMENT not in plain and IN_COMMAND not in plain
    shown = _on_terminal(cli, "status", running.id, "--show-secrets")
    assert IN_ENVIRONMENT in shown
    (cli.folder / "over").touch()
    cli.ended(running)
    ended = _on_terminal(cli, "status", running.id, "--show-secrets")
    assert "hush" not in ended and "API_TOKEN" in ended and MASK in ended
    assert "hush" not in _files(running)


def test_a_plan_on_a_terminal_shows_its_secrets_and_writes_none(cli: CommandLine) -> None:
    shown = _on_terminal(cli, "plan", "--show-secrets", *LAUNCH, "--", *PROGRAM)
    assert IN_ENVIRONMENT in shown and IN_COMMAND in shown and MASK not in shown
    cli.state.create()
    for path, content in files_below(cli.state.root).items():
        assert b"hush" not in content, path


def test_they_are_refused_in_pipes_in_json_and_for_other_machines(
    cli: CommandLine, running: RunDirectory
) -> None:
    for words in (
        ["status", running.id],
        ["status", running.id, "--json"],
        ["plan", *LAUNCH],
        ["status", "last", "--host", "nowhere"],
    ):
        flags = ["--show-secrets", *(["--", *PROGRAM] if words[0] == "plan" else [])]
        refused = cli.run(*words, *flags, exits=2)
        assert "--show-secrets" in refused.stderr
        assert "hush" not in refused.stdout + refused.stderr
    (cli.folder / "over").touch()
