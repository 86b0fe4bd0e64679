"""Words on a command line, and bytes on stdin, that are none of what is expected: said in words."""

import argparse
import io
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import tui.cli
from runners.model.errors import ExitCode, WrongInput
from runners.places.fleet.waiting import new_launch
from runners.places.ssh.node_groups import NodeGroup, NodeRun, add_group
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.ssh import Ssh
from runners.presets.sweeps import expand
from runners.state.jobs import JobRow, JobTable
from runners.state.layout import StateDirectory
from tests.support import deaf_port
from tui.cli import foreign, nodes, run_command, service, several_hosts
from tui.cli.host_any import _started
from tui.views.log_lines import last_lines


@pytest.mark.parametrize(
    "words",
    [
        ("session", "start", "--rate", "1", "--gpus", "²"),
        ("session", "start", "--rate", "1", "--gpus", "9" * 5000),
        ("cost", "plan", "gaussian-fast:²"),
        ("cost", "plan", " "),
        ("host", "add", "box", "root@x:²"),
        ("monitor", "--watch", "--every=-1"),
        ("monitor", "--watch", "--every=nan"),
        ("monitor", "--watch", "--every", "99999999999d"),
        ("compare", "a", "b", "--code", "--json"),
        ("serve", "--host", "a..b", "--without-tls"),
        ("serve", "--port", "99999"),
        ("plan", "--priority", "9" * 25, "--", "true"),
        ("plan", "--set", "priority=-1000001", "--", "true"),
        *(
            ("plan", "--nodes=2", "--node-rank=0", "--master-addr=a", f"--master-port={port}", "x")
            for port in ("9" * 25, "000065536", "-1", "²")
        ),
    ],
)
def test_what_is_no_number_or_no_choice_is_wrong_input(words: Sequence[str]) -> None:
    assert run_command(words) == ExitCode.WRONG_INPUT


def test_a_list_of_prices_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    words = ["prices", "update", str(tmp_path / "missing.yaml")]
    for more in ([], ["--sha256", "0" * 64]):
        assert run_command([*words, *more]) == ExitCode.NOT_FOUND


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


def test_a_machine_whose_command_was_killed_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {"a": 0, "b": -signal.SIGKILL}

    def ended(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, codes[command[-1]], "{}", "")

    monkeypatch.setattr(several_hosts, "_run", ended)
    assert several_hosts.run_each(["a", "b"], lambda host: [host], True) == 128 + signal.SIGKILL
    assert json.loads(capsys.readouterr().out) == {"a": {}, "b": {}}


def test_an_install_that_systemd_refuses_is_one_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(system: bool, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, 1, "", "Failed to connect to bus")

    monkeypatch.setattr(service, "_call", refused)
    monkeypatch.setattr(service, "is_booted", lambda: True)
    monkeypatch.setattr(service, "unit_folder", lambda system: tmp_path)
    assert run_command(["service", "install", "--json"]) == ExitCode.RUN_FAILED
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "failed"


def test_removing_what_is_not_there_answers_in_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(service, "unit_folder", lambda system: tmp_path)
    assert run_command(["service", "remove", "--json"]) == ExitCode.NOT_FOUND
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_found"


def test_a_failed_host_test_is_one_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    registry = RemoteRegistry(StateDirectory(tmp_path).create())
    with deaf_port() as port:
        registry.save(RemoteHost("box", "root@127.0.0.1", port=port))
        assert run_command(["host", "test", "box", "--json"]) == ExitCode.DENIED
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert not found["ok"] and found["problem"] in said.err


@pytest.mark.parametrize("text", ["lr=1e400..1e401..1", f"lr=0..1{'0' * 400}", "lr=1..1e400"])
def test_a_range_beyond_all_numbers_is_wrong_input(text: str) -> None:
    with pytest.raises(WrongInput, match="too large"):
        expand([text], lambda key: True)


def test_what_a_machine_says_in_other_letters_keeps_no_other_node_from_its_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def answer(_: object, words: Sequence[str]) -> object:
        asked.append(words[1])
        exit_code = ExitCode.DENIED if words[1] == "first" else ExitCode.DONE
        return argparse.Namespace(errors=b"Verbindung geschlossen \xfc", exit_code=exit_code)

    monkeypatch.setattr(nodes, "remote_output", answer)
    state = StateDirectory(tmp_path)
    registry = RemoteRegistry(state)
    for name in ("a", "b"):
        registry.save(RemoteHost(name, f"root@{name}"))
    group = NodeGroup("two", "p", 1.0, "a", 1, (NodeRun("a", "first"), NodeRun("b", "second")))
    add_group(state, group)
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    assert run_command(["nodes", "stop", "two", "--json"]) == ExitCode.RUN_FAILED
    assert asked == ["second", "first"]
    found = json.loads(capsys.readouterr().out)
    assert found["cause"] and [*found["problems"]] == ["a"]


def test_a_job_is_not_cancelled_where_nobody_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(foreign, "refresh", lambda *_: JobTable())
    monkeypatch.setattr(foreign, "find_foreign", lambda *_: JobRow("7", "mine", "RUNNING"))
    assert run_command(["adopt", "7", "--stop", "--json"]) == ExitCode.DENIED


def test_what_is_done_to_a_machine_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    registry = RemoteRegistry(StateDirectory(tmp_path).create())
    registry.save(RemoteHost("box", "root@box"))
    monkeypatch.setattr(Ssh, "is_connected", lambda _: True)
    for word, key in (("connect", "connected"), ("remove", "removed")):
        assert run_command(["host", word, "box", "--json"]) == ExitCode.DONE
        assert json.loads(capsys.readouterr().out) == {"host": "box", key: True}
    assert registry.names() == []


def test_a_machine_that_answers_without_end_is_one_that_failed() -> None:
    done = subprocess.CompletedProcess([], 0, "[" * 200_000, "odd")
    assert several_hosts._document(done)["error"]["message"] == "odd"


def test_of_less_than_no_lines_none_is_shown(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("1\n2\n3\n4\n")
    assert last_lines(tmp_path / "output.log", -2) == []
    assert last_lines(tmp_path / "output.log", 2) == ["3", "4"]
