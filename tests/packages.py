"""The built package, and an environment with nothing in it but that and what it says it needs."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import REPOSITORY

SITE = Path(sysconfig.get_paths()["purelib"])


def build(folder: Path, kind: str) -> Path:
    """Build a `wheel`, an `sdist` or an `editable` of this source into `folder`; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    code = f"import sys, hatchling.build as backend; print(backend.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return folder / done.stdout.split()[-1]


def names_in(package: Path) -> set[str]:
    """The files of a wheel, or of an sdist, there without its first folder."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(package) as archive:
        files = [member.name for member in archive if member.isfile()]
    return {name.partition("/")[2] for name in files}


def install(wheel: Path, environment: Path) -> Path:
    """Install it as pip does, with links to the packages it needs; its folder of programs.

    Whatever else is installed where the tests run, torch above all, is not there.
    """
    venv.create(environment, symlinks=True)
    site = next(environment.glob("lib/python*/site-packages"))
    needed = _needed(_requirements(wheel))
    for distribution in needed.values():
        tops = {Path(file).parts[0] for file in distribution.files or ()}
        for top in tops - {"..", "__pycache__"}:
            (site / top).symlink_to(SITE / top)
    python = environment / "bin" / "python"
    words = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *words],
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
    )
    assert not shutil.which("torch", path=str(environment / "bin"))
    return environment / "bin"


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as package:
        name = next(name for name in package.namelist() if name.endswith("/METADATA"))
        found = metadata.PathDistribution(zipfile.Path(package, name.rpartition("/")[0] + "/"))
        return list(found.requires or ())


def _needed(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """Every distribution that those need, extras aside, by name."""
    found: dict[str, metadata.Distribution] = {}
    left = list(requirements)
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        wanted = [{"extra": extra} for extra in requirement.extras or {""}]
        marker = requirement.marker
        if name in found or (marker and not any(marker.evaluate(extra) for extra in wanted)):
            continue
        found[name] = metadata.distribution(name)
        left += found[name].requires or ()
    return found
