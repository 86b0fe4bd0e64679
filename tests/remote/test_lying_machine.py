"""A rented machine that lies in every field: it writes nothing of ours, and nothing falls over."""

import hashlib
import json
import re
import shlex
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.cost.meter import Meter
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.run_ids import is_run_id
from runners.model.states import State
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh import agent_tool
from runners.places.ssh.agent_tool import ask_tool
from runners.places.ssh.frames import check_frame
from runners.places.ssh.machine import LinkedHost
from runners.places.ssh.registry import RemoteHost, RemoteRegistry, parse_address
from runners.places.ssh.remote_request import RemoteRequest
from runners.places.ssh.snapshot_updates import SnapshotReader, snapshot_to_tree
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tests.command_text import NO_LOGIN
from tests.process.conftest import COMMAND, CommandLine
from tests.remote.lying import LyingMachine, changed, paths_of
from tests.support import CEILING_S, eventually
from tui.cli.arguments import parse
from tui.views.format import dollars

RUN = "20261122-100000-honest-0001"
CONTENT = "ssh-ed25519 EVIL\n"
ESCAPES = "\x1b]52;c;UFdORUQ=\x1b\\\x1b]0;PWNED\x07\x1b[31m\x9b31m"


def manifest(**other: Any) -> dict[str, Any]:
    """What a machine has of one run with one file."""
    file = {
        "root": "/there",
        "name": "output.log",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT.encode()).hexdigest(),
    }
    run = {
        "run": RUN,
        "host": "evil",
        "directory": "/there",
        "state": "done",
        "live": False,
        "checkpoints": [],
        "files": [{**file, **other.pop("file", {})}],
    }
    return {"runs": [{**run, **other}], "ledger": ""}


@pytest.fixture
def evil(tmp_path: Path, line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> LyingMachine:
    """A machine that answers honestly, for now."""
    machine = LyingMachine(tmp_path / "evil", line.state)
    monkeypatch.setenv("PATH", machine.path)
    machine.say(
        hello=[[{"answer": {"time": 0.0, "version": "1", "python": "3", "state": "/s"}}, ""]],
        command={"": [[{"stream": 1}, "[]"], [{"exit": 0}, ""]]},
        manifest=manifest(),
        have={"output.log": [len(CONTENT), 1]},
        send=[["output.log", CONTENT, ""]],
    )
    return machine


def outside(line: CommandLine) -> dict[str, bytes]:
    """Every file of the person's that is none of the state folder's, with what is in it."""
    return {
        str(path): path.read_bytes()
        for path in line.folder.rglob("*")
        if path.is_file() and line.folder / "got" not in path.parents
    }


def test_an_honest_answer_is_fetched(line: CommandLine, evil: LyingMachine) -> None:
    for _ in range(2):
        (found,) = line.json("fetch", RUN, "--host", "evil", "--to", "got")
        assert (line.folder / "got" / RUN / "output.log").read_text() == CONTENT
        assert found["fetched"]


@pytest.mark.parametrize(
    "answer",
    [
        manifest(run="{victim}"),
        manifest(run="../victim"),
        manifest(run=".ssh"),
        manifest(run="20261122-100000-other-0002"),
        manifest(run=""),
        manifest(file={"name": "../../victim/authorized_keys"}),
        manifest(file={"name": "{victim}/authorized_keys"}),
        manifest(file={"name": "link/authorized_keys"}),
        manifest(file={"root": "/etc"}),
        manifest(working_directory="/etc", file={"root": "/etc"}),
        manifest(file={"name": "fresnel-manifest.json"}),
        manifest(file={"name": ".fresnel-fetched.json"}),
        manifest(file={"name": "mine.txt"}),
        manifest(file={"size": 1 << 60}),
        manifest(file={"size": -1}),
        manifest(file={"sha256": "x"}),
        {"runs": [1], "ledger": ""},
        {"runs": {}},
        "[1, 2]",
        "[" * 100_000,
        "{",
        "",
    ],
    ids=lambda answer: str(answer)[:60],
)
def test_nothing_is_written_outside_of_what_was_asked_for(
    line: CommandLine, evil: LyingMachine, answer: Any
) -> None:
    victim = line.folder / "victim"
    victim.mkdir()
    (victim / "authorized_keys").write_text("mine\n")
    (line.folder / "got" / RUN).mkdir(parents=True)
    (line.folder / "got" / RUN / "mine.txt").write_text("mine\n")
    (line.folder / "got" / RUN / "link").symlink_to(victim)
    before = outside(line)
    if isinstance(answer, dict) and "ledger" in answer:
        for run in answer["runs"]:
            if isinstance(run, dict):
                run["run"] = run["run"].replace("{victim}", str(victim))
                run["files"][0]["name"] = run["files"][0]["name"].replace("{victim}", str(victim))
    name = "authorized_keys"
    evil.say(manifest=answer, have={name: [len(CONTENT), 1]}, send=[[name, CONTENT, ""]])
    done = line.run("fetch", RUN, "--host", "evil", "--to", "got", exits=None)
    assert done.returncode != 0
    assert outside(line) == before
    assert (line.folder / "got" / RUN / "mine.txt").read_text() == "mine\n"
    here = {path.name for path in (line.folder / "got" / RUN).iterdir()}
    assert here - {".fresnel-fetched.json"} == {"link", "mine.txt"}


@pytest.mark.parametrize(
    "sent",
    [
        [["output.log", CONTENT + "more", ""]],
        [["other", CONTENT, ""]],
        [["output.log", "", "../../victim"]],
        [["../../victim", CONTENT, ""]],
        [],
    ],
    ids=str,
)
def test_only_what_was_asked_for_comes(
    line: CommandLine, evil: LyingMachine, sent: list[list[str]]
) -> None:
    before = outside(line)
    evil.say(send=sent)
    line.run("fetch", RUN, "--host", "evil", "--to", "got", exits=1)
    assert outside(line) == before
    assert not [path for path in (line.folder / "got").rglob("*") if path.is_symlink()]
    assert not (line.folder / "got" / RUN / "other").exists()


def test_what_was_fetched_from_one_machine_is_not_overwritten_by_another(
    line: CommandLine, evil: LyingMachine
) -> None:
    line.run("fetch", RUN, "--host", "evil", "--to", "got")
    note = line.folder / "got" / RUN / ".fresnel-fetched.json"
    note.write_text(note.read_text().replace('"evil"', '"good"'))
    refused = line.run("fetch", RUN, "--host", "evil", "--to", "got", exits=1)
    assert "was fetched from good" in refused.stderr


COMMANDS = (
    ("list",),
    ("status", "last"),
    ("logs", "last"),
    ("gpus",),
    ("cost",),
    ("stop", RUN),
    ("launch", "true"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_escape_reaches_the_terminal(
    line: CommandLine, evil: LyingMachine, command: tuple[str, ...], as_json: bool
) -> None:
    output = json.dumps({"name": ESCAPES}, ensure_ascii=False) if as_json else ESCAPES
    evil.say(
        command={
            "": [
                [{"stream": 1}, f"{output}\n"],
                [{"stream": 2}, f"{ESCAPES}\n"],
                [{"exit": 0}, ""],
            ]
        }
    )
    words = [*command, "--host", "evil", *(["--json"] if as_json else [])]
    if command[0] == "launch":
        words = ["launch", *words[2:], "--", "true"]
    if command[0] == "logs":  # a log's bytes stay as they are where they go to a file
        printed, exit_code = on_a_terminal(line, words)
    else:
        done = line.run(*words)
        printed, exit_code = done.stdout + done.stderr, done.returncode
        assert not as_json or json.loads(done.stdout)["name"].encode("latin-1", "ignore")
    assert exit_code == 0 and "PWNED" in printed
    without_colours = re.sub("\x1b\\[[0-9;]*m", "", printed) if command[0] == "logs" else printed
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", without_colours)


def on_a_terminal(line: CommandLine, words: list[str]) -> tuple[str, int]:
    """What a command writes to a terminal, and how it exits."""
    child = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], *words],
        cwd=str(line.folder),
        env={**line.environment({}), "TERM": "xterm"},
        timeout=CEILING_S,
        encoding="utf-8",
    )
    printed = child.read()
    child.close()
    return str(printed), int(child.exitstatus or 0)


@pytest.mark.parametrize("printed", ["no JSON", "[1", "7", "[7]", "{}", '{"unfetched": 1}', ""])
@pytest.mark.parametrize("command", [("host", "end", "evil"), ("fetch", "--all", "--host", "evil")])
def test_answers_that_are_no_json_are_a_sentence(
    line: CommandLine, evil: LyingMachine, command: tuple[str, ...], printed: str
) -> None:
    evil.say(command={"": [[{"stream": 1}, printed], [{"exit": 0}, ""]]})
    done = line.run(*command, "--json", exits=None)
    assert done.returncode not in (0, None)
    assert "error" in json.loads(done.stdout)


def test_a_machine_that_is_not_reached_is_tested_without_a_traceback(
    line: CommandLine, evil: LyingMachine
) -> None:
    evil.say(stderr="root@evil: Permission denied (publickey).\n", code=255)
    refused = line.run("host", "test", "evil", exits=4).stderr
    assert NO_LOGIN in refused and "fresnel-tui host connect evil" in refused
    printed = line.run("host", "test", "evil", "--json", exits=4).stdout
    assert json.loads(printed)["ok"] is False


def test_the_hint_for_another_key_names_the_same_machine(tmp_path: Path) -> None:
    host = RemoteHost("box", "root@x", port=2203, options=("ProxyJump=jump me",))
    ssh = Ssh(RemoteRegistry(StateDirectory(tmp_path)), host)
    hint = ssh.trouble("Host key for fresnel-box: Host key verification failed.").hint
    words = hint.partition("`fresnel-tui ")[2].partition("`")[0]
    arguments = parse(shlex.split(words))
    assert arguments is not None and arguments.replace
    assert parse_address(arguments.address) == ("root@x", 2203)
    assert arguments.ssh_option == ["ProxyJump=jump me"]


HELLO = {"time": 1.0, "version": "7.7", "python": "3.11.2", "installed": "", "state": "/s"}
ROW = RunRow(
    RUN, 1, "n", "p", "", State.RUNNING, "", "evil", "root", 1.0, 1.0, None, 9.0, None, (0,),
    0.5, 1, 2, 1, 2, "loss", 0.5, 0.4, is_live=True, cost=1.0, eta_s=3.0, rate=1.0, tags=("t",),
)  # fmt: skip
SNAPSHOT = PlaceSnapshot(
    host="evil",
    runs={RUN: ROW},
    reading=GpuReading(
        1.0, "evil", "nvml", (GpuSnapshot(0, "u", "G", "nvidia", utilization=5.0, memory_used=1),)
    ),
    meter=Meter(Decimal("1.99"), Decimal("2"), None, Decimal("3"), "a price"),
)
TREE = json.loads(json.dumps(snapshot_to_tree(SNAPSHOT)))
BAD: tuple[Any, ...] = (
    None, True, -5, 1e308, "NaN", "Infinity", "../../x", [1], {"a": 1}, {}, 10**400, "x" * 70_000,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(path=st.sampled_from(paths_of(TREE)), to=st.sampled_from(BAD))
def test_every_field_of_a_snapshot_may_lie(path: tuple[str | int, ...], to: Any) -> None:
    tree = changed(TREE, path, to)
    try:
        check_frame({"id": 1, "snapshot": tree})
        snapshot = SnapshotReader().take({"snapshot": tree})
    except ValueError:
        return
    if snapshot is None:
        return
    assert all(is_run_id(run_id) for run_id in snapshot.runs)
    for value in (snapshot.meter.per_hour, snapshot.meter.spent, snapshot.meter.budget_left):
        assert value is None or dollars(value)
    for gpu in snapshot.gpus:
        assert 0 <= (gpu.utilization or 0) <= 1000 and (gpu.memory_used or 0) >= 0


def lying_link(evil: LyingMachine, folder: Path) -> tuple[LinkedHost, list[str]]:
    """The machine as the panel has it, and the names of what ended its thread."""
    died: list[str] = []
    threading.excepthook = lambda told: died.append(told.exc_type.__name__)
    ssh = Ssh(evil.registry, evil.host)
    return LinkedHost(ssh, folder / "mirror", lambda: None), died


@pytest.mark.parametrize(
    "lie",
    [
        {"hello": [[{"answer": [1, 2]}, ""]]},
        {"hello": [[{"answer": {**HELLO, "time": "x"}}, ""]]},
        {"hello": [['{"id":1,"answer":' + "[" * 100_000 + "]" * 100_000 + "}", ""]]},
        {"hello": [[{"answer": HELLO, "bytes": -1}, ""]]},
        {"hello": [[{"answer": {**HELLO, "time": 1e308}}, ""]]},
        {"watch": [[{"changes": [1]}, ""], [{"snapshot": {"runs": 7}}, ""]]},
        {"watch": [[{"snapshot": changed(TREE, ("meter", "per_hour"), "NaN")}, ""]]},
        {"watch": [[{"snapshot": changed(TREE, ("runs",), {"../x": [1]})}, ""]]},
        {"watch": [[{"stream": "x"}, ""]]},
        {"watch": [[{"snapshot": TREE}, ""], [{"changes": {"meter": 7}}, ""]]},
        {"watch": [[{"id": 101, "at": "x", "inode": "y"}, "z"]]},
        {"command": {"": [[{"exit": "x"}, ""]]}},
    ],
    ids=lambda lie: str(lie)[:60],
)
def test_a_lie_closes_the_line_and_no_thread_dies(
    evil: LyingMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: dict[str, Any]
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    evil.say(hello=[[{"answer": HELLO}, ""]], watch=[[{"snapshot": TREE}, ""]])
    evil.say(**lie)
    host, died = lying_link(evil, tmp_path)
    answers: list[RemoteRequest] = []
    try:
        if "command" in lie:
            eventually(lambda: host.is_reached)
        for name in ("stop", "launch"):
            host.link.order(RemoteRequest([name, RUN], "/", answers.append))
        eventually(lambda: host.is_down)
        assert host.status.trouble is Trouble.NOT_UNDERSTOOD
        assert host.status.retry_at is not None
        eventually(lambda: len(answers) == 2)
        assert all(answer.problem for answer in answers)
        assert host.link._thread.is_alive() and not died
    finally:
        host.stop()


@pytest.mark.parametrize("tool", ["manifest", "have"])
def test_a_machine_that_falls_silent_is_not_waited_for(
    evil: LyingMachine, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setattr(agent_tool, "SILENT_S", 1.0)
    evil.say(**{tool: "freeze"})
    with pytest.raises(RemoteTrouble) as raised:
        ask_tool(Ssh(evil.registry, evil.host), tool, {})
    assert raised.value.kind is Trouble.SILENT and "1 s" in raised.value.message


def test_a_ledger_and_a_log_may_only_grow(line: CommandLine, evil: LyingMachine) -> None:
    kept = line.folder / "got" / "evil-ledger.jsonl"
    words = ("fetch", RUN, "--host", "evil", "--to", "got")
    for ledger in ("one\n", "one\ntwo\n"):
        evil.say(manifest={**manifest(), "ledger": ledger})
        assert line.json(*words)[0]["rewritten"] == []
        assert kept.read_text() == ledger
    for other in ("one\n", "One\ntwo\nthree\n", ""):
        evil.say(manifest={**manifest(), "ledger": other})
        assert "evil-ledger.jsonl stays as it was" in line.run(*words).stderr
        assert "stays as it was" not in line.run(*words).stderr
        assert kept.read_text() == "one\ntwo\n"

    content = CONTENT.replace("EVIL", "GOOD") + "and more\n"
    found = manifest(
        file={"size": len(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}
    )
    evil.say(manifest=found, have={"output.log": [len(content), 2]})
    evil.say(send=[["output.log", content, ""]])
    assert line.json(*words)[0]["rewritten"] == ["output.log"]
