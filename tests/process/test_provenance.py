"""What ran, as a launch writes it down: in plan.json, source.json and source.diff, at the launch
and at the start.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.state.layout import RunDirectory
from tests.command_text import CODE_CHANGED
from tests.process.conftest import CommandLine
from tests.support import eventually
from tui.views.runs.code_diff import diff_lines

WHO = ("-c", "user.name=Anna", "-c", "user.email=a@b")


def git(folder: Path, *words: str) -> str:
    """What git says in `folder`."""
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    """Commit `text` as the training script; the new commit."""
    (folder / "train.py").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def code(cli: CommandLine) -> Path:
    """The folder the commands run in, made a checkout."""
    git(cli.folder, "init", "-q", "-b", "trunk")
    commit(cli.folder, "print('one')")
    return cli.folder


def plan_of(run: RunDirectory) -> dict[str, object]:
    found: dict[str, object] = json.loads(run.plan.read_text())
    return found


def test_a_launch_writes_down_what_ran(cli: CommandLine, code: Path) -> None:
    (code / "train.py").write_text("print('edited')")
    (code / "notes").touch()
    run = cli.command(sys.executable, "train.py", ready="edited")
    found = plan_of(run)["provenance"]
    assert isinstance(found, dict)
    assert found["commit"] == git(code, "rev-parse", "HEAD") and found["branch"] == "trunk"
    assert found["interpreter"] == sys.executable and found["python"] == ".".join(
        map(str, sys.version_info[:3])
    )
    source = json.loads(run.source.read_text())
    assert source["dirty"] is True and source["untracked"] == 1 and source["root"] == str(code)
    assert (
        "+print('edited')" in run.source_diff.read_text()
        and "# untracked: 'notes'" in run.source_diff.read_text()
    )
    assert {path.stat().st_mode & 0o777 for path in (run.source, run.source_diff)} == {0o600}


def test_outside_a_checkout_nothing_is_asked(cli: CommandLine) -> None:
    fake = cli.folder / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {cli.folder / 'asked'}\n")
    fake.chmod(0o700)
    run = cli.command("echo", "over", ready="over", PATH=f"{fake.parent}:{os.environ['PATH']}")
    assert not run.source.exists() and not (cli.folder / "asked").exists()
    assert cli.ended(run)["state"] == "done"
    assert diff_lines(run) == [], "no changes are spoken of where there is no repository"


def test_a_queued_run_says_when_the_code_changed_while_it_waited(
    cli: CommandLine, code: Path
) -> None:
    first = git(code, "rev-parse", "HEAD")
    cli.run("drain", "on")
    run = cli.launch("--gpus", "0", "--", sys.executable, "train.py")
    assert cli.status(run)["state"] == "queued"
    second = commit(code, "print('two')")
    cli.run("drain", "off")
    eventually(lambda: "two" in run.output.read_text(), what="the run's output")
    assert cli.ended(run)["state"] == "done"
    plan = plan_of(run)
    provenance, notes = plan["provenance"], plan["notes"]
    assert isinstance(provenance, dict) and isinstance(notes, list)
    assert (provenance["commit_at_launch"], provenance["commit"]) == (first, second)
    assert any(CODE_CHANGED in note and second[:12] in note for note in notes)
    assert json.loads(run.source.read_text())["commit"] == second
    assert json.loads((run.path / "source.launch.json").read_text())["commit"] == first


def test_a_queued_run_whose_code_stayed_has_nothing_to_say(cli: CommandLine, code: Path) -> None:
    cli.run("drain", "on")
    run = cli.launch("--gpus", "0", "--", sys.executable, "train.py")
    cli.run("drain", "off")
    assert cli.ended(run)["state"] == "done"
    notes = plan_of(run)["notes"]
    assert isinstance(notes, list) and not [note for note in notes if "changed" in note]
