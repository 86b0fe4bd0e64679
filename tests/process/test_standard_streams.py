"""Standard streams that are closed or take no more, as cron, a daemon or a full disk leave them."""

import errno
import json
import os
import subprocess

import pytest

from tests.process.conftest import CommandLine
from tests.support import CEILING_S
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


def test_a_state_folder_that_may_not_be_made_says_how_to_name_another(cli: CommandLine) -> None:
    done = cli.run("launch", "--json", "--", "true", exits=1, FRESNEL_STATE_DIR="/sys/nowhere")
    assert "FRESNEL_STATE_DIR" in json.loads(done.stdout)["error"]["hint"]
