"""What has so long and no longer is killed with all that it started."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runners import notify
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
