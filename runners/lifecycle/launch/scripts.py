"""The script that a command runs: whether it is there, and what a run would not see of it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from runners.host.files import read_plain
from runners.host.shells import SHELLS, line_of
from runners.model.late_pattern import late_pattern
from runners.model.python_command import python_command
from runners.model.suggestions import nearest_hint
from runners.model.wrappers import started_in_the_end, unwrapped

_LARGEST = 1 << 20
"""Bytes: a larger script is not looked into."""
_BACKGROUND = late_pattern(r"(?<![&>|<\\])&(?![&>\d])")
_TO_FILE = late_pattern(
    r"^[^#\n]*\b(?:python[\d.]*|torchrun|accelerate|deepspeed)\s[^|;\n'\"]*?[\s&1]>{1,2}\s*"
    r"(?P<file>[^\s&;|<>()'\"]+)",
    re.MULTILINE,
)
_TEE = late_pattern(r"\|&?\s*tee\b[^|;&]*$")
_PARTS = late_pattern(r"[\n;]|&&|\|\|")
_WAITS_FOR_NOTHING = {"echo", "printf", "disown", "exit", "true", ":", "jobs", "sleep"} | {
    *("done", "fi", "esac", "}", ")", "{"),
}


class Script(NamedTuple):
    """A script's name and text; other than Python, it is a shell's."""

    name: str
    text: str
    is_python: bool


def absent_script(argv: Sequence[str], folder: Path) -> Path | None:
    """The file that `argv` would run by Python in `folder`, where that is not there."""
    python = python_command(unwrapped(argv))
    if python is None or not python.script:
        return None
    path = folder / python.script
    return None if path.exists() else path


def read_script(program: Sequence[str], folder: Path) -> Script | None:
    """The Python or shell script that `program` runs in `folder`; None where none can be read."""
    program = started_in_the_end(program).argv
    python = python_command(program)
    name = python.script if python is not None else _shell_script(program)
    if not name:
        return None
    try:
        text = read_plain(folder / name, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return None
    return Script(PurePath(name).name, text, python is not None)


def script_notes(argv: Sequence[str], folder: Path) -> tuple[str, ...]:
    """That Python finds no file to run, or what a shell's script keeps from its run.

    That is a program in the background, an exit code, output.

    Nothing is refused: a script may be sent, or written by another run, before this one starts.
    """
    program, path = unwrapped(argv), absent_script(argv, folder)
    if path is None:
        return (*_shell_notes(program, folder),)
    beside = (other.name for other in path.parent.glob("*.py"))
    return (
        f"no file {path} yet: without it the run ends at once{nearest_hint(path.name, beside)}",
    )


def _shell_script(program: Sequence[str]) -> str:
    if not program:
        return ""
    if PurePath(program[0]).suffix == ".sh":
        return program[0]
    options = program[1:2] if _is_shell(program) else ()
    return next((word for word in options if not word.startswith("-")), "")


def _is_shell(program: Sequence[str]) -> bool:
    return PurePath(program[0]).name in SHELLS


def _shell_notes(program: Sequence[str], folder: Path) -> Iterator[str]:
    script, where = read_script(program, folder), "the command"
    program = started_in_the_end(program).argv
    if script is not None and not script.is_python:
        text, where = script.text, script.name
    elif not (text := line_of(program)):
        return
    lines = [
        line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")
    ]
    redirected = _TO_FILE.search(text)
    if redirected is not None:
        yield (
            f"{where} sends a program's output to {redirected['file']}: nothing of it is seen or "
            "read here; leave that out"
        )
    if lines and _TEE.search(lines[-1]) and "pipefail" not in text:
        yield (
            f"{where} ends in `tee`, whose exit code hides that of the program: leave it out, its "
            "output is kept; or begin with `set -o pipefail`"
        )
    *_, after = -1, *(found.end() for found in _BACKGROUND.finditer(text))
    if after >= 0 and not any(map(_may_wait, _PARTS.split(text[after:]))):
        yield (
            f"{where} leaves a program in the background (&): a run ends with its first process, "
            "and what is left is ended then; leave out that &, or add `wait`"
        )


def _may_wait(part: str) -> bool:
    """Whether a shell that has come so far could still wait for a program."""
    word = next(iter(part.split()), "#")
    return not (word in _WAITS_FOR_NOTHING or word.startswith("#") or "=" in word)
