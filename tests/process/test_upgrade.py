"""Another version that is installed while runs live: they, and what watches them, go on by it."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine, events, record, supervisor_of
from tests.support import REPOSITORY, eventually

# Isolated: nothing of it is forked from a process that has imported the first version.
BEGINS = "import sys; sys.path.insert(0, {!r}); from tui.__main__ import main; main()"
UNTIL_IT_MAY = (
    "sh",
    "-c",
    "until [ -e may_end ]; do sleep 0.05; done; echo RuntimeError: no; exit 3",
)


@pytest.fixture
def installed(cli: CommandLine, tmp_path: Path) -> Path:
    """A copy of the source, which is the program of the test."""
    place = tmp_path / "installed"
    for name in ("runners", "tui", "presets"):
        shutil.copytree(
            REPOSITORY / name, place / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    cli.begins = (sys.executable, "-I", "-c", BEGINS.format(str(place)))
    return place


def upgrade(place: Path) -> None:
    """Install a version in which a function has another name, in its module and where it is used:
    a process that has imported the module cannot import what uses it any more.
    """
    changed = 0
    for file in place.rglob("*.py"):
        text = file.read_text()
        if file.name == "shells.py" or "runners.host.shells" in text:
            new = file.with_suffix(".new")
            new.write_text(re.sub(r"\bline_of\b", "line_in", text))
            new.replace(file)
            changed += "line_of" in text
    assert changed > 1


def test_a_run_that_fails_after_an_upgrade_is_started_again(
    cli: CommandLine, installed: Path
) -> None:
    again = ("--set", "restart.times=1", "--set", "restart.backoff=0.1s")
    run = cli.command(*UNTIL_IT_MAY, options=again)
    supervisor = eventually(lambda: supervisor_of(run))
    upgrade(installed)
    (cli.folder / "may_end").touch()
    ended = cli.ended(run)
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 3, 2)
    assert "Traceback" not in run.supervisor_log.read_text()
    # The same process all the time: whoever watches it by its pid has lost nothing.
    assert record(run)["supervisor_pid"] == supervisor
    assert len(events(run, "adopted")) == 1


def test_who_waits_in_the_queue_begins_after_an_upgrade(
    cli: CommandLine, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    first = cli.launch("--gpus", "1", "--", *UNTIL_IT_MAY)
    second = cli.launch("--gpus", "1", "--", "true")
    upgrade(installed)
    (cli.folder / "may_end").touch()
    assert cli.ended(second)["state"] == "done"
    assert cli.ended(first)["exit_code"] == 3
