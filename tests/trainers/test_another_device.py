"""Steps and judging on a device that is not the CPU: the tests of `another_device.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import REPOSITORY
from tests.warm import TORCH

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(450)]


def test_all_networks_learn_and_are_judged_on_another_device(tmp_path: Path) -> None:
    """In a process of its own: its device has to be there before the first gradient is computed."""
    file = Path(__file__).with_name("another_device.py")
    ended = TORCH.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         f"--basetemp={tmp_path / 'own'}", str(file)],
        cwd=REPOSITORY,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )  # fmt: skip
    if ended.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        pytest.skip(ended.stdout)
    assert ended.returncode == pytest.ExitCode.OK, ended.stdout
