"""What has so long and no longer is killed with all that it started."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runners import notify
from runners.host import run_in_time
from runners.model.spec import CommandRule
from runners.presets.reading.user_settings import NoticeKeys
from runners.verify.data_facts import run_check


def by_check(command: str, folder: Path) -> None:
    rule = CommandRule(command=("sh", "-c", command), seconds=0.5)
    assert run_check(rule, folder, os.environ, {}).exit_code is None


def by_notice(command: str, folder: Path) -> None:
    assert notify._run_command(folder, NoticeKeys(command=command), {}).startswith("killed")


@pytest.mark.parametrize("run", [by_check, by_notice])
def test_nothing_outlives_its_time(
    run: Callable[[str, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "COMMAND_S", 0.5)
    run(f"sleep 60 & echo $! > {tmp_path}/pid; wait; true", tmp_path)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while (state := _state(pid)) not in ("", "Z"):
        assert time.monotonic() < deadline, f"it lives on: {state}"
        time.sleep(0.02)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_of_what_a_command_prints_without_end_the_end_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_in_time, "MOST_KEPT", 1000)
    line = "yes | head -c 300000; echo; echo last"
    done = run_in_time.run_in_time(["sh", "-c", line], 60.0, stdout=subprocess.PIPE)
    assert len(done.stdout) == 1000 and done.stdout.endswith(b"last\n")
    rule = CommandRule(command=("sh", "-c", line))
    assert run_check(rule, tmp_path, os.environ, {}).last_line == "last"
