"""Builds the stand-in NVML and writes the scenarios it answers from."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "nvml"
VARIABLE = "NVML_STUB_SCENARIO"


def compiler() -> str | None:
    """The C compiler, or None where there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def build(folder: Path, *defines: str) -> Path:
    """Compile libnvidia-ml.so.1 into `folder`; return the folder, for LD_LIBRARY_PATH. `R535`:
    another driver's.
    """
    tool = compiler()
    assert tool is not None
    sources = [str(SOURCES / name) for name in ("stub.c", "scenario.c")]
    library = folder / "libnvidia-ml.so.1"
    flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        *(f"-D{name}" for name in defines),
    ]
    subprocess.run([tool, *flags, "-o", str(library), *sources], check=True)
    return folder


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
    return {"LD_LIBRARY_PATH": str(library), VARIABLE: str(scenario), "PATH": os.environ["PATH"]}
