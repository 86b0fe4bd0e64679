"""The program that a command names, found and fit to be executed, or why it is not.

Facts: execve(2), "Interpreter scripts"; a file without `#!` is run by a shell (execvp(3), ENOEXEC).
"""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from runners.host.files import expanded, is_file, is_folder, is_there, open_binary
from runners.host.shells import shell_line
from runners.model.errors import WrongInput
from runners.presets.command_line import needs_shell
from runners.scheduling.visibility import ALL_VARIABLES

_INTERPRETERS = {".py": "python", ".sh": "bash"}
_OF_SHELLS = {"source", ".", "cd", "export", "conda", "module", "ulimit", "set", "eval", "alias"}
_FIRST_LINE = 256
"""Bytes: Linux reads no more of it."""
_FEW_FOLDERS = 3


def find_program(name: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The file that `name` stands for in `folder` and the environment's PATH.

    Raises WrongInput where there is none, or the system could not execute it.
    """
    path, place = folder / expanded(name), environment.get("PATH")
    found = shutil.which(str(path)) if "/" in name else shutil.which(name, path=place)
    if found is not None:
        _check_first_line(name, Path(found), place)
        return found
    if "/" not in name or (" " in name and not is_there(path)):
        raise WrongInput(f"no program `{name}` in PATH", _meant(name, path) or _nearby(name, place))
    if is_folder(path):
        raise WrongInput(f"`{name}` is a folder, not a program")
    if is_there(path):
        advice = f"start it by its interpreter: {_spell(name, path)}; or chmod +x it"
        raise WrongInput(f"`{name}` has no permission to be executed", advice)
    raise WrongInput(f"no program `{name}`", f"looked for {path}")


def _meant(name: str, path: Path) -> str:
    """What is to be written for a first word that is no program; empty where nobody knows."""
    variable, _, value = name.partition("=")
    if is_file(path):
        return f"to start the file in {path.parent}: {_spell(f'./{name}', path)}"
    if variable in ALL_VARIABLES and value:
        return f"its GPUs are chosen by --gpu-ids {value}"
    if value and variable.isidentifier():
        return f"to set a variable: env {shlex.quote(name)} PROGRAM"
    if " " in name and needs_shell(name):
        return f"it is a line of a shell: -- {shlex.join(shell_line(name))}"
    if " " in name:
        return f"write it without quotes: -- {name}"
    if name in _OF_SHELLS:
        return f"it is a word of the shell: bash -c '{name} … && PROGRAM'"
    return ""


def _nearby(name: str, place: str | None) -> str:
    """A program by nearly this name, or where was looked: cron's PATH has two folders."""
    if shutil.which(f"{name}3", path=place):
        return f"`{name}3` is there"
    folders = (place or os.defpath).split(os.pathsep)
    return f"looked in {', '.join(folders)}" if len(folders) <= _FEW_FOLDERS else ""


def _spell(name: str, path: Path) -> str:
    """How `name` is started by its interpreter, where its ending tells which."""
    return " ".join(filter(None, (_INTERPRETERS.get(path.suffix), shlex.quote(name))))


def _check_first_line(name: str, path: Path, place: str | None) -> None:
    try:
        with open_binary(path) as file:
            block = file.read(_FIRST_LINE)
    except OSError:
        return  # executable without being readable
    line = block.partition(b"\n")[0]
    if not line.startswith(b"#!"):
        if path.suffix == ".py":
            advice = f"start it by its interpreter: {_spell(name, path)}"
            raise WrongInput(f"`{name}` does not begin with #!: a shell would run it", advice)
        return
    if line.endswith(b"\r"):
        raise WrongInput(
            f"`{name}` has Windows line endings: no interpreter `{_named(line)}\\r` is found",
            rf"sed -i 's/\r$//' {shlex.quote(str(path))}",
        )
    parts = os.fsdecode(line[2:]).split()
    if not parts or len(line) == _FIRST_LINE:
        return  # nothing that this understands, or cut
    if Path(parts[0]).name == "env" and len(parts) == 2 and parts[1][:1] != "-":
        exists = shutil.which(parts[1], path=place) is not None
    else:
        exists = is_there(parts[0])
    if not exists:
        advice = f"correct that line, or start it by another: {_spell(name, path)}"
        raise WrongInput(f"`{name}` names an interpreter that is not here: {_named(line)}", advice)


def _named(line: bytes) -> str:
    return line[2:].decode("utf-8", "replace").strip()
