"""A run of the tests that is ended leaves nothing of what it has started."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.leftovers import writers
from tests.support import CEILING_S, REPOSITORY, eventually

LAUNCHES = """
import subprocess, sys
from pathlib import Path

def test_it(tmp_path):
    words = ["launch", "--gpus", "0", "--", "sleep", "600"]
    subprocess.run([sys.executable, "-m", "fresnel_tui", *words], check=True)
    Path({!r}).touch()
    subprocess.run(["sleep", "600"])
"""


@pytest.mark.parametrize("workers", [["-n0"], ["-n1"]])
def test_a_run_that_is_ended_ends_what_it_has_started(
    tmp_path: Path, workers: Sequence[str]
) -> None:
    test, launched, base = (tmp_path / name for name in ("test_it.py", "launched", "base"))
    test.write_text(LAUNCHES.format(str(launched)))
    options = [*workers, "-pno:cacheprovider", "-ptests.conftest", f"--rootdir={tmp_path}"]
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={base}", str(test)],
        cwd=REPOSITORY,
        env=outside,
        stdout=subprocess.DEVNULL,
    ) as run:
        try:
            eventually(launched.exists, 3 * CEILING_S, "a run that was launched")
            assert list(writers(base))
        finally:
            run.send_signal(signal.SIGTERM)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert not list(writers(base))
