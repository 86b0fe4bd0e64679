"""A machine that has only Python of a certain version, and packages for it without an index."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from runners.places.ssh.setup import requirements
from tests.remote.users import MachineDisk

_LOOK = "import ensurepip, sys, venv; print(sys.executable, sys.base_prefix, sep='\\n')"
_DOWNLOAD_S = 300.0
_PROGRAMS = ("/usr/bin", "/bin", "/usr/sbin")


class OtherPython(NamedTuple):
    """An interpreter and the folder that all of it lies in."""

    path: Path
    prefix: Path


def find_python(version: str) -> OtherPython | None:
    """A Python of this version that can make environments: on PATH, or one of pyenv's."""
    found = [shutil.which(f"python{version}")]
    if pyenv := shutil.which("pyenv"):
        said = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        versions = Path(said.stdout.strip()) / "versions"
        found += sorted(map(str, versions.glob(f"{version}*/bin/python{version}")))
    for one in filter(None, found):
        done = subprocess.run([one, "-c", _LOOK], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            path, prefix = map(Path, done.stdout.splitlines())
            return OtherPython(path, prefix)
    return None


def download_needs(python: OtherPython, folder: Path, *more: str) -> str:
    """Take what the panel needs in this Python, and `more`, into a folder; why that fails, or
    nothing.
    """
    words = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:", "-d", str(folder)]
    try:
        done = subprocess.run(
            [python.path, *words, *requirements(), *more],
            capture_output=True,
            text=True,
            check=False,
            timeout=_DOWNLOAD_S,
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {_DOWNLOAD_S:.0f} s"
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else lines[-1] if lines else "pip failed"


def leave_only(disk: MachineDisk, folder: Path, python: Path | None) -> None:
    """Let `python3` be this one, or nothing, and no other Python be on PATH; `folder` is to hold
    the machine's `/usr/local/bin`.
    """
    folder.mkdir()
    if python is not None:
        (folder / "python3").symlink_to(python)
    disk.put(folder, Path("/usr/local/bin"))
    every = [path for where in map(Path, _PROGRAMS) for path in where.glob("python*")]
    names = {path.resolve() for path in every if path.name.strip("python0123456789.") == ""}
    for path in names - {python.resolve() if python else None}:
        disk.mask(path)
