"""Whether a preset can run here, and what installs what it lacks."""

import sys
from pathlib import Path

import pytest

from runners.lifecycle.launch.interpreter import interpreter_in
from runners.lifecycle.launch.planning import spell_command, why_not_here
from runners.lifecycle.launch.requirements import (
    MissingPackages,
    missing_packages,
    needed_packages,
)
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.spec import RunSpec
from runners.presets.catalogue import resolve_preset
from runners.presets.load import load_preset


def preset(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return path


def bare_python(tmp_path: Path) -> Path:
    """A Python of its own, without any package."""
    place = tmp_path / "bare"
    (place / "bin").mkdir(parents=True)
    python = place / "bin" / "python"
    python.symlink_to(Path(sys.executable).resolve())
    home = Path(sys.executable).resolve().parent
    (place / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    return python


def reading(*names: str) -> GpuReading:
    gpus = tuple(
        GpuSnapshot(i, f"GPU-{i}", name, "nvidia", memory_total=1 << 36, memory_used=0)
        for i, name in enumerate(names)
    )
    return GpuReading(0.0, "host", "nvml", gpus)


def lacks(spec: RunSpec) -> MissingPackages | None:
    return missing_packages(spec, interpreter_in(*spell_command(spec)))


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    python = bare_python(tmp_path)
    (tmp_path / "t.py").touch()
    text = f"launcher: python\ninterpreter: {python}\nscript: {tmp_path}/t.py\ngpus: 0\n"
    spec = load_preset(preset(tmp_path, text + "needs: {packages: [yaml, json, msgspec]}\n"))
    found = lacks(spec)
    assert found is not None and found.packages == ("yaml", "msgspec"), "json is Python's own"
    assert found.install.endswith("install pyyaml msgspec") and str(python) in found.install
    assert why_not_here(spec, None) == "missing: yaml, msgspec"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = tmp_path / "bare" / "lib" / version / "site-packages"
    for name in ("yaml", "msgspec"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").touch()
    assert lacks(spec) is None, "what was installed is seen at once"


def test_a_trainer_of_ours_names_the_extra_of_fresnel_tui(tmp_path: Path) -> None:
    spec = resolve_preset("gaussian-tiny", [f"interpreter={bare_python(tmp_path)}"])
    assert {"torch", "numpy"} <= set(needed_packages(spec))
    found = lacks(spec)
    assert found is not None and found.install.endswith("[train]'")


def test_a_preset_s_own_command_installs(tmp_path: Path) -> None:
    python = bare_python(tmp_path)
    (tmp_path / "t.py").touch()
    text = f"launcher: python\ninterpreter: {python}\nscript: {tmp_path}/t.py\n"
    spec = load_preset(preset(tmp_path, text + "needs: {packages: [x_y], install: make it}\n"))
    found = lacks(spec)
    assert found is not None and found.install == "make it"


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        ("{count: 1, model: H100}", ""),
        ("{count: 1, model: MI300X}", "no GPU here is a MI300X"),
        ("3", "3 GPUs asked for, but this machine has 2"),
        ("{ids: '7', required: true}", "GPU 7"),
        ("0", ""),
    ],
)
def test_gpus_that_are_not_here(tmp_path: Path, gpus: str, why: str) -> None:
    spec = load_preset(preset(tmp_path, f"launcher: command\ncommand: echo\ngpus: {gpus}\n"))
    found = why_not_here(spec, reading("NVIDIA H100", "NVIDIA H100"))
    assert why in found and bool(why) == bool(found)


def test_a_missing_script_and_program_are_said(tmp_path: Path) -> None:
    spec = load_preset(preset(tmp_path, "launcher: python\nscript: none.py\ngpus: 0\n"))
    assert "none.py" in why_not_here(spec, None)
    spec = load_preset(preset(tmp_path, "launcher: command\ncommand: no-such-x\ngpus: 0\n"))
    assert "no-such-x" in why_not_here(spec, None)
