"""A command line as a person types it into a shell, turned into words, and back."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from runners.host.shells import shell_command, shell_line
from runners.model.errors import WrongInput
from runners.model.late_pattern import late_pattern
from runners.model.masking import mask_arguments
from runners.model.python_command import python_command
from runners.model.wrappers import started_in_the_end

_QUOTED = late_pattern(r"\\.|'[^']*'|\"(?:[^\"$`\\]|\\[^$`])*\"", re.DOTALL)
_GOES_ON = late_pattern(r"('[^']*')|\\\r?\n")
_SCRIPT = late_pattern(r"([\w-][\w.-]*)\.(?:py|sh)\b")
_LONGEST = 60
_SHELL = late_pattern(r"[|&;<>()$`*?\n]|(?:^|\s)~|^\s*[A-Za-z_]\w*=")


def split_command(text: str) -> list[str]:
    """The words of `text`, or a shell's where it has pipes, variables or `cd … && …`.

    WrongInput when it is empty or a quote never ends.
    """
    # A line that goes on in the next one, as in what is pasted: shlex would keep the line's end.
    text = _GOES_ON.sub(lambda found: found[1] or "", text).strip()
    try:
        arguments = shlex.split(text)
    except ValueError as error:
        raise WrongInput(f"command: {str(error).lower()}") from None
    if not arguments:
        raise WrongInput("type a command, for example: python train.py --epochs 10")
    return shell_line(text) if needs_shell(text) else arguments


def needs_shell(text: str) -> bool:
    """Whether a line has pipes, variables, several commands or a word that only a shell knows."""
    return _SHELL.search(_QUOTED.sub("_", text)) is not None


def command_name(command: Sequence[str]) -> str:
    """What the run of a command is called: the script or module that Python or a shell runs.

    Without one, or where its name is a secret, the program; empty where that cannot be shown.
    """
    shown = dict(zip(command, mask_arguments(command), strict=True))
    named = _what_runs(command)
    if len(named) >= _LONGEST or shown.get(named, named) != named:
        named = command[0]
    name = re.sub(r"\.[A-Za-z]+$", "", PurePath(named).name)
    return "".join(char for char in name if char.isprintable())


def _what_runs(command: Sequence[str]) -> str:
    command = started_in_the_end(command).argv
    python = python_command(command)
    if python is not None:
        return python.script or python.module.rpartition(".")[2]
    line, script = shell_command(command)
    found = _SCRIPT.search(line)
    return found[1] if found else script or command[0]


def literal_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Words as a spec keeps them: a `${` in them is no placeholder."""
    return tuple(word.replace("${", "$${") for word in arguments)


def spell_command_line(arguments: Sequence[str]) -> str:
    """The command of a spec as a person would type it."""
    plain = [word.replace("$${", "${") for word in arguments]
    if len(plain) == 3 and split_safely(plain[2]) == plain:
        return plain[2]
    return shlex.join(plain)


def split_safely(text: str) -> list[str]:
    """The words of `text`; none when it is no command."""
    try:
        return split_command(text)
    except WrongInput:
        return []
