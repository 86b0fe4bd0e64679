"""Another version that is installed while runs live: they, and what watches them, go on by it."""

from pathlib import Path

import pytest

from tests.process.conftest import CommandLine, events, record, supervisor_of
from tests.support import eventually
from tests.upgrades import AGAIN, UNTIL_IT_MAY, install, upgrade


@pytest.fixture
def installed(cli: CommandLine, tmp_path: Path) -> Path:
    """Where the program of the test lies."""
    cli.begins = install(tmp_path / "installed")
    return tmp_path / "installed"


def test_a_run_that_fails_after_an_upgrade_is_started_again(
    cli: CommandLine, installed: Path
) -> None:
    run = cli.command(*UNTIL_IT_MAY, options=AGAIN)
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


def test_a_program_that_had_not_begun_begins_with_the_secrets_of_its_launch(
    cli: CommandLine, installed: Path
) -> None:
    """They are in its supervisor's memory alone."""
    file, last = installed / "runners/lifecycle/supervisor/attempt_start.py", "return self.wait"
    text, may_begin = file.read_text(), str(cli.folder / "may_begin")
    assert text.count(last) == 1
    waits = f"while not os.path.exists({may_begin!r}): __import__('time').sleep(0.01)\n        "
    file.write_text(text.replace(last, f"{waits}import runners.host.bounded_glob; {last}"))
    program = ("sh", "-c", "test $API_TOKEN = mine")
    run = cli.launch("--gpus", "0", "--", *program, API_TOKEN="mine")
    upgrade(installed)
    (cli.folder / "may_begin").touch()
    assert cli.ended(run)["state"] == "done"
    assert len(events(run, "adopted")) == 1 and not events(run, "alert")


def test_who_waits_is_started_by_another_installation_where_its_own_is_removed(
    cli: CommandLine, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    file = installed / "runners/host/replaced_code.py"
    text = file.read_text()
    assert text.count("_RETURNS_WITHIN_S = 120.0") == 1
    file.write_text(text.replace("_RETURNS_WITHIN_S = 120.0", "_RETURNS_WITHIN_S = 0.0"))
    first = cli.launch("--gpus", "1", "--", *UNTIL_IT_MAY)
    second = cli.launch("--gpus", "1", "--", "true")
    installed.rename(installed.with_name("removed"))
    cli.begins = install(installed.with_name("other"))
    (cli.folder / "may_end").touch()
    assert cli.ended(first)["exit_code"] == 3
    third = cli.launch("--gpus", "1", "--", "true")
    assert cli.ended(second)["state"] == cli.ended(third)["state"] == "done"
