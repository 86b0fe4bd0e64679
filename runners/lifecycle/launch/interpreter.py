"""What a Python interpreter is and has, by the files around it: it is never run.

On a rented machine it may be the one that `host setup` chose: an image keeps its torch in an
environment of its own, which a login by ssh does not have on PATH.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runners.host.files import open_binary, read_text
from runners.model.late_pattern import late_pattern
from runners.model.wrappers import started_in_the_end

_VERSION = late_pattern(r"(\d+\.\d+(?:\.\d+)?)")
_FULL_VERSION = late_pattern(r"(\d+\.\d+\.\d+)")
CHOSEN = "FRESNEL_PYTHON"
"""Names it; the launcher that `host setup` writes sets it."""
_PLAIN = ("python", "python3")


class Interpreter(NamedTuple):
    """The Python of a program, the environment it gets, and where it finds packages then."""

    path: Path
    environment: Mapping[str, str]
    folders: tuple[Path, ...]

    def version_of(self, package: str) -> str | None:
        """The version of a package that it has; None when it has none."""
        return package_version(package, self.folders)


def interpreter_in(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Interpreter | None:
    """The Python that `argv` runs in `folder` and `environment`; None when it runs none."""
    path = interpreter_of(argv, environment, folder)
    if path is None:
        return None
    return Interpreter(path, environment, tuple(package_folders(path, environment)))


def interpreter_of(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Path | None:
    """The Python that `argv` runs in `folder`: its program, or that of its first line.

    None when it is not Python, and where another program chooses it.
    """
    found = started_in_the_end(argv)
    if found.chooser:
        return None
    for layer in reversed(found.layers):
        name = layer[0] if layer else ""
        found_in_path = "" if "/" in name else shutil.which(name, path=environment.get("PATH"))
        program = folder / (found_in_path or name)
        # Scripts that pip installs name their interpreter in the first line.
        named = Path(_first_line(program).removeprefix("#!").split(" ")[0])
        for python in (program, named):
            if python.name.startswith("python"):
                return python
    return None


def python_version(interpreter: Path) -> str | None:
    """The version of `interpreter`, as exactly as the files around it tell."""
    if str(interpreter) == sys.executable:
        return ".".join(map(str, sys.version_info[:3]))
    settings = _venv_settings(interpreter)
    written = settings.get("version") or settings.get("version_info") or ""
    base = _base_of(interpreter, settings)
    conda = next((base / "conda-meta").glob("python-[0-9]*.json"), None)
    # The most reliable source first; a name such as python3.12 has the least to say.
    for text, pattern in (
        (written, _VERSION),
        (conda.name if conda else "", _FULL_VERSION),
        (base.name, _FULL_VERSION),
        (interpreter.resolve().name, _VERSION),
    ):
        found = pattern.search(text)
        if found:
            return found[1]
    return None


def package_version(name: str, folders: Iterable[Path]) -> str | None:
    """The version of the installed package `name` in the first of `folders` that has it.

    The same as importlib.metadata tells, which costs a launch 20 ms to import.
    """
    spelled = "[-_.]+".join(map(re.escape, re.split(r"[-_.]+", name)))
    pattern = re.compile(rf"{spelled}-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info", re.IGNORECASE)
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                found = [match[1] for entry in entries if (match := pattern.fullmatch(entry.name))]
        except OSError:
            continue
        if found:
            return max(found, key=_by_number)
    return None


def _by_number(version: str) -> tuple[int, ...]:
    """2.13.0 comes after 2.9.0: an upgrade that failed may leave both."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def package_folders(interpreter: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Where `interpreter` finds packages, in its own order.

    PYTHONPATH, its venv, the user's, the system's.
    """
    yield from (
        Path(entry) for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry
    )
    version = _VERSION.match(python_version(interpreter) or "")
    short = ".".join(version[1].split(".")[:2]) if version else "3.*"
    settings = _venv_settings(interpreter)
    if settings:
        yield from _sites(_prefix(interpreter), short)
        # A venv without it sees nothing of the system's packages, nor of the user's.
        if settings.get("include-system-site-packages", "").lower() != "true":
            return
    user = environment.get("PYTHONUSERBASE") or str(Path(environment.get("HOME", "/")) / ".local")
    yield from _sites(Path(user), short)
    base = _base_of(interpreter, settings)
    # Debian's own Python looks in /usr/local before /usr.
    yield from _sites(Path("/usr/local") if base == Path("/usr") else base, short)
    yield from _sites(base, short)


def _sites(prefix: Path, version: str) -> Iterator[Path]:
    for pattern in (f"lib*/python{version}/site-packages", f"lib/python{version}/dist-packages"):
        yield from prefix.glob(pattern)
    yield prefix / "lib" / "python3" / "dist-packages"


def _prefix(interpreter: Path) -> Path:
    return interpreter.parent.parent


def _base_of(interpreter: Path, settings: Mapping[str, str]) -> Path:
    home = settings.get("home")
    return Path(home).parent if home else _prefix(interpreter.resolve())


def _venv_settings(interpreter: Path) -> dict[str, str]:
    """The keys of the pyvenv.cfg beside or above the executable, found as Python itself does.

    Empty without one.
    """
    for place in (interpreter.parent, _prefix(interpreter)):
        lines = read_text(place / "pyvenv.cfg").splitlines()
        pairs = [line.partition("=") for line in lines if "=" in line]
        if pairs:
            return {key.strip().lower(): value.strip() for key, _, value in pairs}
    return {}


def _first_line(program: Path) -> str:
    try:
        with open_binary(program) as file:
            return (
                file.read(256).partition(b"\n")[0].decode("utf-8", "replace")
                if file.peek(2)[:2] == b"#!"
                else ""
            )
    except OSError:
        return ""


def chosen_python(own: Mapping[str, str]) -> str:
    """Its path; empty where none was chosen, or where `own`, a preset's variables, say PATH."""
    path = os.environ.get(CHOSEN, "")
    return path if path and "PATH" not in own and os.access(path, os.X_OK) else ""


def replaced_python(name: str, own: Mapping[str, str]) -> str:
    """What is meant by the program `name`: for a plain `python` the one that was chosen."""
    return (chosen_python(own) if name in _PLAIN else "") or name


def search_path(own: Mapping[str, str]) -> dict[str, str]:
    """PATH with the chosen Python's own programs (torchrun, pip) first, where others are now."""
    chosen = chosen_python(own)
    if not chosen:
        return {}
    folder, path = str(Path(chosen).parent), os.environ.get("PATH", os.defpath)
    found = {Path(place).parent for name in _PLAIN if (place := shutil.which(name, path=path))}
    return {} if found == {Path(folder)} else {"PATH": f"{folder}{os.pathsep}{path}"}
