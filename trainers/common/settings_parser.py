"""Command lines and configuration files whose mistakes are told in one line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NoReturn

import trainers
from trainers.common.config_file import apply_config
from trainers.common.errors import SettingsError as SettingsError
from trainers.common.errors import nearest
from trainers.common.files import check_writable, write_text_whole


class SettingsParser(argparse.ArgumentParser):
    """An argument parser that shows defaults; a bad value is one line and exit code 2."""

    def __init__(
        self,
        description: str,
        examples: str = "",
        complete: Callable[[argparse.Namespace], None] | None = None,
    ) -> None:
        """Make a parser; `complete` fills in the settings, and may raise SettingsError."""
        self._complete = complete
        super().__init__(
            description=description,
            epilog="examples:\n" + indent(dedent(examples).strip("\n"), "  ") if examples else None,
            formatter_class=_ExamplesAndDefaults,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Print the message, with the nearest flag for an unknown one, and exit with code 2."""
        beginning = "unrecognized arguments: "
        if message.startswith(beginning):
            flag = message.removeprefix(beginning).split()[0].partition("=")[0]
            message = f"unknown argument {flag}{nearest(flag, self._option_string_actions)}"
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)

    def parse_args(self, *arguments: Any) -> argparse.Namespace:  # type: ignore[override]
        """Read the command line, which every program does once its libraries are loaded."""
        trainers.loaded()
        found: argparse.Namespace = super().parse_args(*arguments)
        for action in self._actions:
            written = action.type in (output_folder, output_file)
            if written and action.default and getattr(found, action.dest) is action.default:
                try:  # argparse reads given texts alone
                    action.type(str(action.default))
                except argparse.ArgumentTypeError as problem:
                    self.error(f"argument {action.option_strings[0]}: {problem}")
        return found

    def read(self, arguments: Sequence[str] | None = None) -> argparse.Namespace:
        """Read the command line over the file `--config` names, if any; flags win over the file.

        A mistake in either ends the program with one line on stderr and exit code 2. Where others
        `complete` the settings, they read the file.
        """
        if self._complete is not None:
            settings = self.parse_args(arguments)
            try:
                self._complete(settings)
            except SettingsError as problem:
                self.error(str(problem))
            return settings
        given = list(sys.argv[1:] if arguments is None else arguments)
        finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        finder.add_argument("--config", type=Path)
        try:
            named = finder.parse_known_args(given)[0].config
            if named is not None and not {"-h", "--help"} & set(given):
                apply_config(self, named)
        except (SettingsError, argparse.ArgumentError) as problem:
            self.error(str(problem))
        return self.parse_args(given)

    def refuse(self, *flags: str, reason: str) -> None:
        """Answer these flags, and file keys of their names, with the reason and exit code 2."""
        refusal = type("_", (_Refusal,), {"reason": reason})
        for flag in flags:
            self.add_argument(flag, action=refusal, nargs="*", default=argparse.SUPPRESS,
                              help=argparse.SUPPRESS)  # fmt: skip


class _ExamplesAndDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Defaults behind every help text that has one, and the epilogue's lines as written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default == []:
            return action.help
        return super()._get_help_string(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(indent + line for line in text.splitlines(keepends=True))


class _Refusal(argparse.Action):
    reason = ""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error(f"{self.option_strings[0]}: {self.reason}")


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from least to most, both included."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least or (most is not None and number > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"{text} is not {limits}")
        return number

    return read


def output_folder(text: str) -> Path:
    """Read the name of a folder that files will go into, an argparse type.

    Refused, before hours of work, where none could be written; nothing is made.
    """
    try:
        check_writable(Path(text))
    except OSError as problem:
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {problem.strerror}") from None
    return Path(text)


def output_file(text: str) -> Path:
    """Read the name of a file that will be written, an argparse type, as output_folder does."""
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder: name a file in it")
    output_folder(str(Path(text).parent))
    return Path(text)


def check_kept(read: Iterable[Path | None], written: Iterable[Path]) -> None:
    """Raise SettingsError where a file that is read would be replaced by one that is written."""
    given = {path.resolve() for path in read if path is not None}
    for path in written:
        if path.resolve() in given:
            raise SettingsError(
                f"{path} is read here, and a result would replace it: name another for the results"
            )


def seed_number(text: str) -> int:
    """Read a seed, an argparse type: every generator takes it, and sums with ranks and epochs."""
    return whole_number(0, 2**32 - 1)(text)


def number_between(least: float, most: float, closed: bool = False) -> Callable[[str], float]:
    """Return an argparse type for numbers between least and most, which are included if closed."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not (least <= number <= most if closed else least < number < most):
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return number

    return read


def plain(value: Any) -> Any:
    """Return settings in types that JSON and weights_only know; a Path becomes text."""
    if isinstance(value, argparse.Namespace):
        return plain(vars(value))
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def write_settings(path: Path, trainer: str, settings: Mapping[str, Any]) -> None:
    """Write the resolved settings and the trainer's name to a JSON file, replaced whole."""
    written = {"trainer": trainer, "settings": plain(settings)}
    write_text_whole(path, json.dumps(written, indent=2, sort_keys=True) + "\n")


def read_settings_file(path: Path) -> tuple[str, dict[str, Any]] | None:
    """Return the trainer's name and settings that write_settings wrote, or None."""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        return str(written["trainer"]), dict(written["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
