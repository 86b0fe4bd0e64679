"""Parsers whose errors are ours: what is wrong, in which command, and what was perhaps meant."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import NoReturn

from runners.model.errors import WrongInput


class UsageError(WrongInput):
    """A command line that cannot be understood; `usage` is how the command is spelled."""

    def __init__(self, message: str, hint: str, usage: str) -> None:
        super().__init__(message, hint)
        self.usage = usage


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError where argparse would print and exit."""

    formatter_class: type[argparse.HelpFormatter]
    in_order = False
    """True while words are taken where they stand, as completion needs them."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse has it; with all positional words taken together, with flags between them."""
        # It comes back here for each half.
        if self.in_order or not any(self._takes_some(action) for action in self._actions):
            return super().parse_known_args(args, namespace)
        self.in_order = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.in_order = False

    @staticmethod
    def _takes_some(action: argparse.Action) -> bool:
        return not action.option_strings and action.nargs in ("?", "*", "+")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the nearest flag or word as its hint."""
        for hidden in self._hidden_actions():
            message = re.sub(rf", '?{hidden}'?(?=[,)])", "", message)
        raise UsageError(message, self._nearest(message), self.format_usage())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End behind a help, whose last words may be those that the output does not take."""
        sys.stdout.flush()
        super().exit(status, message)

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Asked for with every flag that is declared: argparse's own imports shutil for the width,
        # and with it all that unpacks archives, and asks the terminal each time.
        return self.formatter_class(self.prog, width=_line_width())

    def _hidden_actions(self) -> set[str]:
        return {
            name
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name in set(action.choices) - {choice.dest for choice in action._choices_actions}
        }

    def _nearest(self, message: str) -> str:
        from runners.model.suggestions import did_you_mean  # only mistakes need it

        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown:
            word = unknown[1].partition("=")[0]
            flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
            if "--set" in flags and (key := _key_of_a_run(word)):
                return f"`--set {key}=…` says it"
            if word.startswith("-"):
                return did_you_mean(word, flags) or f"`{self.prog} --help` lists the flags"
            return f"`{self.prog} --help` says what goes where"
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong:
            return did_you_mean(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        return ""


def _key_of_a_run(flag: str) -> str:
    """The key of a preset that a flag is named like, such as `restart`; empty where it is none."""
    from runners.model.spec import RunSpec
    from runners.presets.reading.typed import keys_of

    key = flag.lstrip("-").replace("-", "_")
    return key if key in keys_of(RunSpec) and key != "parameters" else ""


@cache
def _line_width() -> int:
    """The width of a help's lines: two less than `$COLUMNS` or the terminal has."""
    try:
        columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns
    except (ValueError, OSError):
        columns = 0
    return (columns or 80) - 2
