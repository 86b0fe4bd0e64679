"""The options of the panel itself: its own command line reads them, completion offers them."""

import argparse
import re
from collections.abc import Sequence

_OVERRIDE = re.compile(r"[A-Za-z_][\w.-]*=")


def spread_overrides(arguments: Sequence[str]) -> list[str]:
    """`--set A=1 B=2` as `--set A=1 --set B=2`, which is what everybody means by it."""
    spread: list[str] = []
    follows = is_value = False
    for argument in arguments:
        if follows and not is_value and _OVERRIDE.match(argument):
            spread.append("--set")
        else:
            follows = is_value or argument.startswith("--set=")
        is_value = argument == "--set"
        spread.append(argument)
    return spread


def add_panel_options(parser: argparse._ActionsContainer) -> None:
    """The options of the panel itself, which has no command."""
    parser.add_argument("--launch", metavar="PRESET", help="launch this preset and select its run")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="with --launch",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="read-only: no launch, no stop, no adoption",
    )
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.add_argument(
        "--slow",
        action="store_true",
        help="the line is slow: two frames a second at most, keys' effects at once",
    )
