"""Workers that are forked from a process which has imported the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import CEILING_S, REPOSITORY

WHOLE = "def test_it():\n    pass\n"
BROKEN = "from json import nothing_of_that_name\n" + WHOLE


def test_a_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    """Python keeps what it has imported of it, in which a worker would find no test."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "test_broken.py").write_text(BROKEN)
    (tmp_path / "test_whole.py").write_text(WHOLE)
    options = ["-n1", "-ptests.conftest", f"--basetemp={tmp_path / 'own'}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=REPOSITORY,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=3 * CEILING_S,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 passed, 1 error" in done.stdout and "nothing_of_that_name" in done.stdout
