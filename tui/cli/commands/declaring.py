"""What the declarations of commands have in common: examples, actions of their own, RUN."""

import argparse
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tui.cli.parsing import CommandParser

RUN = "a run's id, the beginning of one, a name, or `last`"
RUNS = f"{RUN}; a group's name stands for all its runs"


def flag(parser: argparse._ActionsContainer, name: str, help: str) -> None:
    """Declare an option that is given or not."""
    parser.add_argument(name, action="store_true", help=help)


def argument(
    parser: argparse._ActionsContainer, name: str, metavar: str, help: str, **more: Any
) -> None:
    """Declare an option with a value, or a positional argument; `more` is for argparse."""
    parser.add_argument(name, metavar=metavar, help=help, **more)


def seconds(text: str) -> float:
    """A length of time on the command line, such as `90m`, in seconds."""
    from runners.model.units import parse_duration  # most commands take none

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def port(text: str) -> int:
    """A port on the command line; 0 is any that is free."""
    if text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, got {text!r}")


def overrides(parser: argparse._ActionsContainer, help: str) -> None:
    """Declare the repeatable `--set KEY=VALUE`."""
    repeated(parser, "--set", "KEY=VALUE", help, dest="overrides")


def repeated(
    parser: argparse._ActionsContainer, name: str, metavar: str, help: str, **more: Any
) -> None:
    """Declare an option that may be given several times."""
    argument(parser, name, metavar, f"{help} (repeatable)", action="append", default=[], **more)


_SHARED = {
    "--price": ("NAME|USD", "a name from prices.yaml, or dollars per GPU and hour"),
    "--fingerprint": ("SHA256:…", "what the provider shows: refuse any other key"),
    "--end-command": ("CMD", "what `host end` runs here to destroy the machine"),
    "--budget": ("USD", "what may be spent there"),
    "--python": ("PATH", "an interpreter there (default: whose torch sees GPUs)"),
    "--train": ("", "also what the shipped trainers need"),
    "--secrets": ("", "also files named like secrets: .env, keys, tokens"),
    "--yes": ("", "do not ask"),
}


def shared(parser: argparse._ActionsContainer, *names: str) -> None:
    """Declare options that several commands have, which say the same in each."""
    for name in names:
        metavar, help = _SHARED[name]
        if metavar:
            argument(parser, name, metavar, help)
        else:
            flag(parser, name, help)


def ssh_options(parser: argparse._ActionsContainer) -> None:
    """Declare the repeatable `--ssh-option`."""
    repeated(parser, "--ssh-option", "KEY=VALUE", "an option of ssh_config for this machine")


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


def examples(parser: argparse.ArgumentParser, *lines: str, notes: str = "") -> None:
    """Let the parser's help end with examples, a line each, behind `notes`."""
    shown = "\n".join(f"  fresnel-tui {line}" for line in lines)
    parser.epilog = f"{notes}\n\nexamples:\n{shown}" if notes else f"examples:\n{shown}"
    parser.formatter_class = _FilledNotes


class Actions:
    """The actions of a command, such as `session start`, each with flags of its own."""

    def __init__(self, parser: CommandParser, default: str) -> None:
        self._parsers = parser.add_subparsers(
            metavar="ACTION", dest="what", title="actions", required=not default
        )
        parser.set_defaults(what=default)

    def add(self, name: str, summary: str, shown: Sequence[str] = ()) -> CommandParser:
        """The parser of action `name`; with the examples in `shown`."""
        text = summary[:1].upper() + summary[1:] + "."
        parser = self._parsers.add_parser(name, help=summary, description=text)
        self._finish(parser)
        if shown:
            examples(parser, *shown)
        return parser

    def add_hidden(self, name: str) -> CommandParser:
        """The parser of an action that only we ourselves use."""
        parser = self._parsers.add_parser(name)
        self._finish(parser)
        return parser

    @staticmethod
    def _finish(parser: argparse.ArgumentParser) -> None:
        # Suppressed, or the default would overwrite a --json in front of the action's name.
        parser.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
        parser.add_argument("--no-ui", action="store_true", help=argparse.SUPPRESS)
