"""A command line as a person types it into a shell, turned into words, and back."""

import re
import shlex
from collections.abc import Sequence

from runners.model.errors import WrongInput

_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"$`\\]|\\[^$`])*\"", re.DOTALL)
_GOES_ON = re.compile(r"('[^']*')|\\\r?\n")
_SCRIPT = re.compile(r"([\w-][\w.-]*)\.(?:py|sh)\b")
_SHELL = re.compile(r"[|&;<>()$`*?\n]|(?:^|\s)~|^\s*[A-Za-z_]\w*=")


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
    if _SHELL.search(_QUOTED.sub("_", text)):
        return ["sh", "-c", text]
    return arguments


def command_name(text: str) -> str:
    """What a command line that a shell runs is called: its first script; empty when it has none."""
    found = _SCRIPT.search(text) if split_safely(text)[:2] == ["sh", "-c"] else None
    return found[1] if found else ""


def literal_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Words as a spec keeps them: a `${` in them is no placeholder."""
    return tuple(word.replace("${", "$${") for word in arguments)


def spell_command_line(arguments: Sequence[str]) -> str:
    """The command of a spec as a person would type it."""
    plain = [word.replace("$${", "${") for word in arguments]
    if len(plain) == 3 and plain[:2] == ["sh", "-c"] and split_safely(plain[2]) == plain:
        return plain[2]
    return shlex.join(plain)


def split_safely(text: str) -> list[str]:
    """The words of `text`; none when it is no command."""
    try:
        return split_command(text)
    except WrongInput:
        return []
