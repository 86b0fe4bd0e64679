"""A program starts with its output where it belongs, whatever descriptors its supervisor happens
to have open.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.host.exit_status import read_exit_status, spell_exit_status
from tests.support import REPOSITORY

# Leaves exactly the descriptors from FIRST on free, then starts a program and waits for it.
SCRIPT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from runners.lifecycle.supervisor.program_start import Program, start_program
folder, first = sys.argv[2], int(sys.argv[3])
lock = os.open(folder + "/lock", os.O_RDWR | os.O_CREAT)
while (descriptor := os.open("/dev/null", os.O_RDONLY)) < first - 1:
    pass
if descriptor >= first:
    os.close(descriptor)
argv = ["sh", "-c", "echo out; echo err >&2; exit 3"]
files = [folder + name for name in ("/output.log", "/exit", "/leader")]
pid = start_program(Program(argv, dict(os.environ), folder, *files), [lock])
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("first", range(4, 16))
def test_output_and_exit_code_whatever_is_open(tmp_path: Path, first: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(REPOSITORY), str(tmp_path), str(first)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert (tmp_path / "output.log").read_text() == "out\nerr\n"
    status = read_exit_status(tmp_path / "exit")
    assert status is not None and status.moment is not None
    assert (tmp_path / "exit").read_bytes() == spell_exit_status(3, status.moment)
