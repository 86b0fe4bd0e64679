"""Words on a command line, and bytes on stdin, that are none of what is expected: said in words."""

import argparse
import io
import sys
from collections.abc import Sequence

import msgspec
import pytest

import tui.cli
from runners.model.errors import ExitCode
from runners.places.fleet.waiting import new_launch
from tui.cli import run_command
from tui.cli.host_any import _started


@pytest.mark.parametrize(
    "words",
    [
        ("session", "start", "--rate", "1", "--gpus", "²"),
        ("cost", "plan", "gaussian-fast:²"),
        ("host", "add", "box", "root@x:²"),
        ("monitor", "--watch", "--every=-1"),
        ("monitor", "--watch", "--every=nan"),
    ],
)
def test_what_is_no_number_is_wrong_input(words: Sequence[str]) -> None:
    assert run_command(words) == ExitCode.WRONG_INPUT


def test_text_on_stdin_that_is_not_utf8_is_wrong_input_and_a_secret_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = io.BytesIO(b"hidden-caf\xe9-words")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text, "utf-8"))
    assert run_command(["secret", "set", "TOKEN", "--json"]) == ExitCode.WRONG_INPUT
    said = capsys.readouterr()
    assert r"\xe9" in said.out and "hidden" not in said.out + said.err


def test_ctrl_c_while_a_log_is_followed_does_not_begin_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []

    def interrupted(words: Sequence[str]) -> int:
        begun.append(words[0])
        return ExitCode.INTERRUPTED

    monkeypatch.setattr(tui.cli, "run_command", interrupted)
    launch = new_launch(("launch", "x"), "any", True, {}, "x")
    launch = msgspec.structs.replace(launch, runs=("20261120-101500-demo-7f3a",), machine="box")
    wanted = argparse.Namespace(wait=False, follow=True, json=False)
    assert _started(launch, wanted) == ExitCode.INTERRUPTED
    assert begun == ["logs"]
