"""The flags and the help of every command, as they stand in `commands.txt`; nothing runs from here.

A block is a command, or what several include by `+ NAME`; blank lines end it. Its lines:

    name PLACEHOLDER  HELP          a word; behind it ?, * or + as in a usage
    -f --flag PLACEHOLDER  HELP     a flag: `...` it may come several times, `!` it has to come
    | --this  HELP                  of such lines below each other only one may be given
    section TITLE:  HELP            what is further in belongs to it
    action NAME  HELP               an action of the command; `default NAME` is done without one
    usage REST, set NAME=VALUE, : NOTE, $ EXAMPLE

A placeholder may be {a,b}, and have its type, =DEFAULT and dest=NAME behind it. What has no help is
hidden. A line with eight blanks in front goes on with the one above.
"""

import argparse
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from runners.host.files import read_plain
from tui.cli.parsing import CommandParser

_FILE = Path(__file__).with_name("commands.txt")
_OUTER, _GOES_ON = 2, 8
"""Blanks before what belongs to the command itself, and before a line that goes on."""

_RUN = "a run's id, the beginning of one, a name, or `last`"
_GROUP = "a group's name stands for all its runs"
_VALUES: dict[str, object] = {"None": None, "True": True, "False": False, "[]": [], "0": 0}


def _seconds(text: str) -> float:
    """A length of time on the command line, such as `90m`, in seconds."""
    from runners.model.units import parse_duration  # most commands take none

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_TYPES: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "seconds": _seconds}
_SIGNS: dict[str, dict[str, Any]] = {
    "": {},
    "?": {"nargs": "?", "const": True},
    "*": {"nargs": "*"},
    "+": {"nargs": "+"},
    "!": {"required": True},
    "...": {"action": "append", "default": []},
}
"""What stands behind a placeholder; a flag whose value is left out is True."""


class _FilledNotes(argparse.RawDescriptionHelpFormatter):
    """Notes as wide as the terminal; what is indented keeps its lines, and examples are whole."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import wrap

        filled: list[str] = []
        for is_prose, lines in groupby(text.splitlines(), lambda line: line[:1] not in ("", " ")):
            for line in [" ".join(lines)] if is_prose else lines:
                begin = " " * (len(line) - len(line.lstrip()))
                is_whole = not line or line.startswith("  fresnel-tui")
                filled += [line] if is_whole else wrap(line, width, subsequent_indent=begin)
        return "\n".join(indent + line for line in filled)


@cache
def _text() -> str:
    text = read_plain(_FILE).decode()
    return text.replace("<RUNS>", f"<RUN>; {_GROUP}").replace("<RUN>", _RUN)


def _lines(block: str) -> list[tuple[int, str]]:
    """The lines of a block, each behind its indent; those that go on joined."""
    found: list[tuple[int, str]] = []
    for line in _text().split(f"\n\n{block}\n", 1)[1].partition("\n\n")[0].splitlines():
        text = line.lstrip()
        indent = len(line) - len(text)
        if indent < _GOES_ON:
            found.append((indent, text))
        else:
            before = found[-1][1]
            between = " " if "  " in before or before[0] in "$:" else "  "
            found[-1] = found[-1][0], f"{before}{between}{text}"
    return found


def declare(parser: CommandParser, block: str) -> None:
    """Give `parser` all that a block says: a command's name, or `+ NAME`."""
    _Declaration(parser).read(block, parser)


class _Declaration:
    """A command that is being declared, or one of its actions."""

    def __init__(self, parser: CommandParser) -> None:
        self._parser = parser
        self._inner: tuple[_Declaration, argparse._ActionsContainer] = self, parser
        """What lines that are further in belong to: a section, an action."""
        self._default = ""
        self._actions: Any = None
        self._exclusive: Any = None

    def read(self, block: str, place: argparse._ActionsContainer) -> None:
        """Declare all lines of a block, in `place` or further in."""
        for indent, text in _lines(block):
            if indent > _OUTER:
                inner, section = self._inner
                inner._read_line(section, text)
            else:
                self._read_line(place, text)

    def _read_line(self, place: argparse._ActionsContainer, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word != "|":
            self._exclusive = None
        match word:
            case "+":
                for name in rest.split():
                    _declare_slurm(place) if name == "slurm" else self.read(f"+ {name}", place)
            case "|":
                self._exclusive = self._exclusive or place.add_mutually_exclusive_group()
                _declare_argument(self._exclusive, rest)
            case "section":
                title, _, about = rest.partition(":  ")
                self._inner = self, place.add_argument_group(title, about)
            case "action":
                self._add_action(*rest.partition("  ")[::2])
            case ":" | "$":
                self._end_with(rest, is_example=word == "$")
            case "default":
                self._default = rest
            case "usage":
                self._parser.usage = f"{self._parser.prog} {rest}"
            case "set":
                pairs = (pair.split("=") for pair in rest.split())
                self._parser.set_defaults(**{name: _VALUES.get(text, text) for name, text in pairs})
            case _:
                _declare_argument(place, text)

    def _end_with(self, line: str, is_example: bool) -> None:
        """Let the help end with a note, or behind all notes an example."""
        lines = (self._parser.epilog or "").splitlines()
        if is_example and "examples:" not in lines:
            lines += ["", "examples:"] if lines else ["examples:"]
        lines.append(f"  fresnel-tui {line}" if is_example else line)
        self._parser.epilog = "\n".join(lines)
        self._parser.formatter_class = _FilledNotes

    def _add_action(self, name: str, summary: str) -> None:
        if self._actions is None:
            self._actions = self._parser.add_subparsers(
                metavar="ACTION", dest="what", title="actions", required=not self._default
            )
            self._parser.set_defaults(what=self._default)
        # One without a summary is used by ourselves only.
        about = {"help": summary, "description": f"{summary[:1].upper()}{summary[1:]}."}
        parser = self._actions.add_parser(name, **(about if summary else {}))
        # Suppressed, or the default would overwrite a --json in front of the action's name.
        parser.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        parser.add_argument("--no-ui", action="store_true", help=argparse.SUPPRESS)
        self._inner = _Declaration(parser), parser


def _declare_argument(place: argparse._ActionsContainer, text: str) -> None:
    """A word or a flag, as its line says."""
    declared, _, help = text.partition("  ")
    parts = declared.split()
    names = [part for part in parts if part.startswith("-")] or parts[:1]
    more: dict[str, Any] = {"help": help or argparse.SUPPRESS}
    for word in parts[len(names) :]:
        kind = word.rstrip("?*+!.")
        if word in _TYPES:
            more["type"] = _TYPES[word]
        elif word.startswith("="):
            more["default"] = word[1:]  # a text is read as the type says
        elif word.startswith("dest="):
            more["dest"] = word.removeprefix("dest=")
        elif kind.startswith("{"):
            more |= {"choices": kind[1:-1].split(","), **_SIGNS[word[len(kind) :]]}
        else:
            more |= {"metavar": kind, **_SIGNS[word[len(kind) :]]}
    if len(parts) == len(names):
        more["action"] = "store_true"
    elif more.get("action") == "append":
        more["help"] += " (repeatable)"
    place.add_argument(*names, **more)


def _declare_slurm(place: argparse._ActionsContainer) -> None:
    """The keys of `place.slurm` as flags of the same names; each of them means Slurm too."""
    from runners.host.helpers import lean_msgspec

    with lean_msgspec():
        from runners.presets.declared_keys import declared_keys

    group = place.add_argument_group(
        "Slurm", "As a job of this machine's Slurm; its node and GPUs are chosen there."
    )
    _declare_argument(group, "--slurm  submit it, with what the preset and settings.yaml say")
    for declared in declared_keys("place.slurm"):
        name = declared.name.rpartition(".")[2]
        if name == "nodes":
            continue  # the flag stands among those of several machines
        kind: dict[str, Any] = {"metavar": name.upper()}
        if declared.choices:
            kind = {"action": "store_const", "const": "true"}
        option, kept = f"--{name.replace('_', '-')}", f"slurm_{name}"
        group.add_argument(option, dest=kept, help=declared.description, **kind)
