"""The options of the panel itself: its own command line reads them, completion offers them."""

import argparse


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
