"""What ran: interpreter, packages, driver, code and system, found by reading files alone.

It is part of every plan, so it may cost about a millisecond; the uncommitted changes, which take
git longer, are recorded by `git_snapshot`.
"""

import os
from pathlib import Path

from runners import __version__
from runners.lifecycle.launch.git_snapshot import find_checkout, head_of
from runners.lifecycle.launch.interpreter import Interpreter, python_version
from runners.model.gpus import GpuReading
from runners.model.plan import Provenance


def provenance_of(
    interpreter: Interpreter | None, folder: Path, reading: GpuReading | None
) -> Provenance:
    """What a run in `folder` would use; the driver is known where GPUs were read."""
    checkout = find_checkout(folder)
    commit, branch = head_of(checkout) if checkout else (None, None)
    return Provenance(
        fresnel=__version__,
        system=_system(),
        interpreter=str(interpreter.path) if interpreter else None,
        python=python_version(interpreter.path) if interpreter else None,
        torch=interpreter.version_of("torch") if interpreter else None,
        driver=reading.driver if reading else None,
        commit=commit,
        branch=branch,
        commit_at_launch=commit,
    )


def _system() -> str:
    kernel = os.uname()
    text = f"{kernel.sysname} {kernel.release} {kernel.machine}"
    try:
        lines = Path("/etc/os-release").read_text(errors="replace").splitlines()
    except OSError:
        return text
    names = [
        line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")
    ]
    return f"{names[0]}, {text}" if names else text
