"""Standard streams that are closed or take no more (cron, a daemon, a full disk), and odd state folders."""

import errno
import fcntl
import json
import os
import subprocess

import pytest

from runners.model.errors import ExitCode
from tests.process.conftest import CommandLine
from tests.support import CEILING_S
from tui.cli import run_command
from tui.views.safe import OUTPUT


def redirected(cli: CommandLine, where: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command whose streams a shell has redirected."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", *cli.begins, *words],
        cwd=cli.folder,
        env=cli.environment({}),
        capture_output=True,
        text=True,
        timeout=CEILING_S,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_keep_nobody_from_launching(cli: CommandLine, closed: str) -> None:
    words = ("launch", "--gpus", "0", "--name", "dark", "--", "sh", "-c", "echo seen")
    done = redirected(cli, closed, *words)
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = cli.json("list")
    ended = cli.ended(cli.state.run(run["id"]))
    assert (ended["state"], cli.run("logs", "dark").stdout) == ("done", "seen\n")


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("logs", "last")])
def test_an_output_that_takes_no_more_is_named(cli: CommandLine, words: tuple[str, ...]) -> None:
    cli.ended(cli.command("echo", "seen"))
    done = redirected(cli, ">/dev/full", *words)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"fresnel-tui: {OUTPUT}: {os.strerror(errno.ENOSPC)}"]


@pytest.mark.parametrize(
    ("words", "exits"),
    [
        (("list", "--help"), ExitCode.RUN_FAILED),
        (("status", "nobody", "--json"), ExitCode.NOT_FOUND),
        (("list", "--json", "--foo"), ExitCode.WRONG_INPUT),
    ],
)
def test_an_output_that_takes_no_more_changes_no_exit_code(
    cli: CommandLine, words: tuple[str, ...], exits: ExitCode
) -> None:
    done = redirected(cli, ">/dev/full", *words)
    assert done.returncode == exits and "Exception" not in done.stderr, done.stderr


def test_a_state_folder_that_may_not_be_made_says_how_to_name_another(cli: CommandLine) -> None:
    done = cli.run("launch", "--json", "--", "true", exits=1, FRESNEL_STATE_DIR="/sys/nowhere")
    assert "FRESNEL_STATE_DIR" in json.loads(done.stdout)["error"]["hint"]


def test_a_file_system_without_locks_is_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(cli.state.root))
    assert run_command(["launch", "--json", "--gpus", "0", "--", "true"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert "FRESNEL_STATE_DIR" in error["hint"] and str(cli.state.root) in error["message"]
    assert not cli.json("list")
