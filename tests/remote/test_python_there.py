"""Programs on a rented machine run under the Python that `host setup` found, as presets do."""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine

_WHICH = "import shutil, sys; print(sys.executable, shutil.which('pip'))"
_PRESET = "launcher: {launcher}\n{what}\nworking_directory: .\ngpus: 0\n"


def test_programs_run_under_the_python_that_setup_found(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent()
    line.run("host", "add", "rented", machine.address, *machine.options)
    line.run("host", "setup", "rented", "--python", sys.executable)

    def runs_under(*words: str) -> list[str]:
        done = line.run("launch", "--gpus", "0", "--wait", "--host", "rented", *words)
        return line.run("logs", done.stdout.strip(), "--host", "rented").stdout.split()

    pip = str(Path(sys.executable).with_name("pip"))
    assert runs_under("--", "python", "-c", _WHICH) == [sys.executable, pip]
    assert runs_under("--", "sh", "-c", "command -v pip; python -V")[0] == pip
    machine.write("fresnel/which.py", _WHICH)
    preset = _PRESET.format(launcher="python", what="script: ../which.py")
    machine.write("fresnel/presets/own.yaml", preset)
    assert runs_under("own") == [sys.executable, pip]
    # A preset's own PATH has its way.
    machine.write("fresnel/presets/plain.yaml", preset + "environment: {PATH: /usr/bin:/bin}\n")
    assert runs_under("plain")[0].startswith("/usr/bin/")
