"""A rented machine that lies in every field: it writes nothing of ours, and nothing falls over."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.process.conftest import CommandLine
from tests.remote.lying import LyingMachine

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
