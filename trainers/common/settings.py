"""Command lines whose mistakes are told in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn


class SettingsError(ValueError):
    """Something the user asked for cannot be done; its text is one line for them to read."""


class SettingsParser(argparse.ArgumentParser):
    """An argument parser that shows defaults in its help, and a bad value as one line with exit code 2."""

    def __init__(self, description: str) -> None:
        super().__init__(
            description=description,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Print the message on stderr and exit with code 2."""
        print(f"error: {message}", file=sys.stderr, flush=True)
        sys.exit(2)


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


def number_between(least: float, most: float) -> Callable[[str], float]:
    """Return an argparse type for numbers above least and below most, neither included."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not least < number < most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return number

    return read
