"""Builds the stand-in NVML and writes the scenarios it answers from."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runners.host import gpu_claims

SOURCES = Path(__file__).parent / "nvml"
VARIABLE = "NVML_STUB_SCENARIO"


def compiler() -> str | None:
    """The C compiler, or None where there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def build(folder: Path, *defines: str) -> Path:
    """Put libnvidia-ml.so.1 into `folder`; return the folder, for LD_LIBRARY_PATH. `R535`: another
    driver's.
    """
    (folder / "libnvidia-ml.so.1").write_bytes(_compiled(defines))
    return folder


@cache
def _compiled(defines: tuple[str, ...]) -> bytes:
    """The library; compiled once for all tests of a worker."""
    tool = compiler()
    assert tool is not None
    sources = [str(SOURCES / name) for name in ("stub.c", "scenario.c")]
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *(f"-D{name}" for name in defines)]
    with TemporaryDirectory() as folder:
        library = Path(folder, "library.so")
        subprocess.run([tool, *flags, "-o", str(library), *sources], check=True)
        return library.read_bytes()


def write_scenario(path: Path, text: str) -> Path:
    """Replace the scenario at once: the stub never sees half of it."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)
    return path


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> Path:
    """Build the stub into `folder` and let new processes find it; the scenario's file. Skips
    without a compiler.
    """
    if compiler() is None:
        pytest.skip("no C compiler to build the stand-in NVML with")
    scenario = write_scenario(folder / "scenario", text)
    for name, value in environment(build(folder), scenario).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FRESNEL_GPUS", "nvml")
    return scenario


def environment(library: Path, scenario: Path) -> dict[str, str]:
    """The variables under which a new process finds the stub instead of a driver."""
    return {
        "LD_LIBRARY_PATH": str(library),
        VARIABLE: str(scenario),
        "PATH": os.environ["PATH"],
        # Every test has the same GPUs.
        gpu_claims.VARIABLE: str(scenario.parent / "claims"),
    }
