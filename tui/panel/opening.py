"""Opening the panel: its own command line, and the refusal where there is no terminal."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from runners.host.identity import note_person
from runners.model.errors import ExitCode

_FIRST_SWITCH_S = 0.0001


class PanelOptions(NamedTuple):
    """What the panel was opened with."""

    launch: str | None = None
    overrides: Sequence[str] = ()
    read_only: bool = False
    no_mouse: bool = False
    slow: bool = False


def read_arguments(arguments: Sequence[str]) -> PanelOptions:
    """The words behind `fresnel-tui`; SystemExit with what is wrong, or with the help."""
    import argparse  # most panels are opened without a word

    from tui.views.panel_options import add_panel_options, spread_overrides

    parser = argparse.ArgumentParser(
        prog="fresnel-tui",
        description="The panel. `fresnel-tui --help` lists the headless commands.",
    )
    add_panel_options(parser)
    options = PanelOptions(**vars(parser.parse_args(spread_overrides(arguments))))
    if options.read_only and options.launch:
        parser.error("--launch and --read-only: choose one")
    return options


def open_panel(arguments: Sequence[str]) -> int:
    """Open the Textual panel; without a terminal, say how to do the same without one."""
    options = read_arguments(arguments) if arguments else PanelOptions()
    in_browser = os.environ.get("TEXTUAL_DRIVER", "").startswith("tui.web.")
    if not in_browser and not all(
        stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    ):
        print(
            "fresnel-tui: the panel needs a terminal\n"
            "  without one: fresnel-tui --no-ui launch PRESET --follow, or fresnel-tui --help",
            file=sys.stderr,
        )
        return ExitCode.WRONG_INPUT
    note_person()
    # What is imported and built until the first screen stands is no garbage: looking for some only
    # delays it.
    gc.disable()
    # The first snapshot is read beside it: each of its many small reads would else wait for the
    # interpreter's turn.
    sys.setswitchinterval(_FIRST_SWITCH_S)
    # Nothing in the panel's process speaks TLS: asyncio, which would load OpenSSL, does without.
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]
    from tui.panel.app import run_panel

    if sys.modules.get("ssl") is None:
        sys.modules.pop("ssl")

    return run_panel(*options)
