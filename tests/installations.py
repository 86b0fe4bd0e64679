"""The package installed as people do it, and what then has to work: `make packages`.

Wheel and sdist are built and checked as for an upload; then pip, uv and pipx install the wheel, and
pip the sdist, for each Python from 3.10 on that is found, with what it needs from the index of
packages.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.packages import build
from tests.terminal import Terminal

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
OWN = "import runners.theirs, trainers.theirs, tui.theirs; print(trainers.theirs.WHOSE)"


class Installation:
    """A command that was installed, in a folder and with runs of its own."""

    def __init__(self, command: Path, python: Path, folder: Path) -> None:
        self.command = command
        self.python = python
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "HOME": str(folder),
            "FRESNEL_STATE_DIR": str(folder / "state"),
            "FRESNEL_GPUS": "sim:2xH100",
            "TMPDIR": str(folder),
        }

    def run(self, *words: str, exits: tuple[int, ...] = (0,)) -> str:
        """What a command prints; it must exit so, and without a traceback."""
        done = subprocess.run(
            [str(self.command), *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in exits and "Traceback" not in done.stderr, (words, done)
        return done.stdout + done.stderr

    def check_commands(self) -> None:
        """Help, presets, doctor, pages, and a run."""
        self.run("--version")
        self.run("--help")
        self.run("help", "money")
        assert len(json.loads(self.run("presets", "--json"))) > 20
        self.run("doctor", exits=(0, 1))
        run = self.run("launch", "--gpus", "1", "--", "echo", "hello").strip()
        self.run("wait", run)
        assert "hello" in self.run("logs", run)

    def check_panel(self) -> None:
        """The panel, and the small world of `demo`, on a terminal."""
        for words, shown in (((), "SIMULATED|simulated"), (("demo",), "too-fast")):
            command = [str(self.command), *words]
            given = {**self.environment, "PYTHONPATH": ""}
            terminal = Terminal(command, columns=120, rows=40, **given)
            try:
                terminal.wait_for(shown, 60)
                terminal.press("q")
                assert terminal.wait_end(60) == 0
            finally:
                terminal.close()
        assert not list(self.folder.glob("fresnel-demo-*"))

    def check_trainers(self) -> None:
        """Without torch, what to install is said."""
        assert "[train]" in self.run("launch", "gaussian-tiny", "--gpus", "0", exits=(2, 3, 4))

    def check_names(self) -> None:
        """A program's packages of our names are its own."""
        for name in ("tui", "runners", "trainers"):
            (self.folder / name).mkdir()
            (self.folder / name / "theirs.py").write_text("WHOSE = 'theirs'\n")
        (self.folder / "fit.py").write_text(OWN)
        run = self.run("launch", "--gpus", "0", "--", str(self.python), "fit.py").strip()
        self.run("wait", run)
        assert self.run("logs", run).strip() == "theirs"

    def check(self) -> None:
        """All of it."""
        self.check_commands()
        self.check_panel()
        self.check_trainers()
        self.check_names()


def with_pip(python: str, wheel: Path, folder: Path) -> Installation:
    """Into an environment of its own."""
    call(python, "-m", "venv", str(folder / "venv"))
    programs = folder / "venv" / "bin"
    call(str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel))
    return Installation(programs / "fresnel-tui", programs / "python", folder)


def with_uv(python: str, wheel: Path, folder: Path) -> Installation:
    """As a tool, `uv tool install`."""
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    call("uv", "tool", "install", "--quiet", "--python", python, str(wheel), **places)
    inside = folder / "tools" / "fresnel-tui" / "bin" / "python"
    return Installation(folder / "bin" / "fresnel-tui", inside, folder)


def with_pipx(python: str, wheel: Path, folder: Path) -> Installation:
    """As an application, `pipx install`."""
    places = {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
    call("pipx", "install", "--quiet", "--python", python, str(wheel), **places)
    inside = folder / "pipx" / "venvs" / "fresnel-tui" / "bin" / "python"
    return Installation(folder / "bin" / "fresnel-tui", inside, folder)


SOURCE = "pip from the sdist"
INSTALLERS: dict[str, Callable[[str, Path, Path], Installation]] = {
    "pip": with_pip,
    SOURCE: with_pip,
    "uv": with_uv,
    "pipx": with_pipx,
}


def call(*words: str, **environment: str) -> None:
    """Run a program that must succeed; its output is shown only when it does not."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment}
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def pythons() -> Iterator[tuple[str, str]]:
    """Versions and interpreters: of the path, and of pyenv."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        found = sorted(installed.glob(f"{version}.*/bin/python"))
        named = shutil.which(f"python{version}") if not found else str(found[-1])
        if named:
            yield version, named


def main() -> int:
    """Print a line for each installation; 1 when one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with", dest="installers", nargs="+", default=list(INSTALLERS))
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        wheel, source = (build(Path(place) / "dist", kind) for kind in ("wheel", "sdist"))
        call(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
        print(f"{wheel.name} {wheel.stat().st_size >> 10} kB, {source.name}: twine check passed")
        for version, python in pythons():
            for name in options.installers:
                folder = Path(place) / f"{name}-{version}".replace(" ", "-")
                folder.mkdir()
                began = time.monotonic()
                try:
                    package = source if name == SOURCE else wheel
                    INSTALLERS[name](python, package, folder).check()
                    outcome = "works"
                except Exception as error:  # the others are told about all the same
                    failed += 1
                    outcome = f"FAILS: {error}"
                print(f"Python {version}, {name}: {outcome} ({time.monotonic() - began:.0f} s)")
                shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
