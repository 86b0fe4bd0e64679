"""Opening the panel: the words of its own command line, and the refusal where there is no terminal."""

import argparse
import sys
from collections.abc import Sequence

from runners.model.errors import ExitCode


def open_panel(words: Sequence[str]) -> int:
    """Open the Textual panel; without a terminal, say how to do the same without one."""
    parser = argparse.ArgumentParser(
        prog="fresnel-tui", description="The panel. `fresnel-tui --help` lists the headless commands."
    )
    parser.add_argument("--launch", metavar="PRESET", help="launch this preset and select its run")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="with --launch"
    )
    arguments = parser.parse_args(words)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        print(
            "fresnel-tui: the panel needs a terminal\n"
            "  without one: fresnel-tui --no-ui launch PRESET --follow, or fresnel-tui --help",
            file=sys.stderr,
        )
        return ExitCode.WRONG_INPUT
    from tui.app import run_panel

    return run_panel(arguments.launch, arguments.overrides)
