"""What a preset needs installed and its interpreter has not got, said before the launch.

Packages are looked for as files, as `provenance` does; only where one is not found is the
interpreter asked, which also knows of editable installs. Nothing is imported.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from runners.host.files import is_file, is_folder, names_in
from runners.host.helpers import ROOT
from runners.lifecycle.launch.interpreter import Interpreter
from runners.model.launchers import traits_of
from runners.model.spec import RunSpec

OURS = "fresnel-tui"
_EXTRA = "train"
_SHIPPED = "${trainers}/"
_OF_TRAINERS = ("torch", "numpy")
_OF_TRAINER = {"gaussian": ("PIL",), "skulls": ("scipy",)}
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "nrrd": "pynrrd",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_ASK = (
    "import sys; from importlib.util import find_spec; sys.path[:1] = []\n"
    "print(*[one for one in sys.argv[1:] if find_spec(one) is None])"
)
_ANSWER_S = 10.0
_answers: dict[tuple[object, ...], tuple[str, ...]] = {}


class MissingPackages(NamedTuple):
    """Packages that an interpreter has not got, and the one command that installs them."""

    packages: tuple[str, ...]
    interpreter: Path
    install: str

    @property
    def text(self) -> str:
        """What is missing, in words."""
        several = "s" if len(self.packages) > 1 else ""
        return f"{self.interpreter} lacks the Python package{several} {', '.join(self.packages)}"


def needed_packages(spec: RunSpec) -> tuple[str, ...]:
    """The packages `spec` imports: its preset's, else our own trainer's; and its launcher's."""
    found = spec.needs.packages
    if not found and spec.script.startswith(_SHIPPED):
        trainer = spec.script.removeprefix(_SHIPPED).partition("/")[0]
        found = (*_OF_TRAINERS, *_OF_TRAINER.get(trainer, ()))
    return tuple(dict.fromkeys((*found, *traits_of(spec.launcher).packages)))


def missing_packages(spec: RunSpec, interpreter: Interpreter | None) -> MissingPackages | None:
    """What its `interpreter` lacks of what `spec` needs; None when nothing is known."""
    wanted = needed_packages(spec)
    if interpreter is None or not wanted:
        return None
    folders = [folder for folder in interpreter.folders if is_folder(folder)]
    unseen = tuple(name for name in wanted if not any(_holds(f, name) for f in folders))
    missing = _ask(interpreter, unseen, folders) if unseen else ()
    if not missing:
        return None
    return MissingPackages(missing, interpreter.path, _install(spec, missing, interpreter, folders))


def _holds(folder: Path, package: str) -> bool:
    top = package.partition(".")[0]
    return (
        is_folder(folder / top)
        or is_file(folder / f"{top}.py")
        or any(name.startswith(f"{package}.") and name.endswith("so") for name in names_in(folder))
    )


def _ask(
    interpreter: Interpreter, names: tuple[str, ...], folders: Sequence[Path]
) -> tuple[str, ...]:
    """Those of `names` that it does not find, asked once while `folders` stay; else none."""
    path = interpreter.environment.get("PYTHONPATH", "")
    key = (interpreter.path, names, path, *(folder.stat().st_mtime_ns for folder in folders))
    if key not in _answers:
        try:
            answer = subprocess.run(
                [interpreter.path, "-c", _ASK, *names],
                env=dict(interpreter.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ANSWER_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return ()
        _answers[key] = tuple(answer.stdout.split())
    return _answers[key]


def _install(
    spec: RunSpec, missing: Sequence[str], interpreter: Interpreter, folders: Sequence[Path]
) -> str:
    if spec.needs.install:
        return spec.needs.install
    if spec.script.startswith(_SHIPPED):
        installed = interpreter.version_of(OURS) is not None
        wanted = [f"{OURS if installed else ROOT}[{_EXTRA}]"]
    else:
        wanted = [_DISTRIBUTIONS.get(name, name) for name in missing]
    has_pip = any(_holds(folder, "pip") for folder in folders)
    uv = None if has_pip else shutil.which("uv", path=os.environ.get("PATH"))
    command = [str(interpreter.path), "-m", "pip", "install"]
    if uv is not None:
        command = ["uv", "pip", "install", "--python", str(interpreter.path)]
    return shlex.join([*command, *wanted])
