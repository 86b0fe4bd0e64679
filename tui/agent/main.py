"""`fresnel-tui host-agent`: what ssh starts on a rented machine. People have no use for it."""

import os
import stat
import sys
from collections.abc import Sequence

from runners.host.helpers import quick_imports
from runners.host.identity import note_person
from runners.places.ssh.protocol import MARKER


def run_agent(arguments: Sequence[str]) -> int:
    """Answer on stdin and stdout until stdin ends; a word names one of the tools for copying.

    With `watch`, what snapshots need is loaded while the first request is still on its way.
    """
    if arguments and arguments[0] != "watch":
        with quick_imports():
            from tui.agent.tools import run_tool

        return run_tool(arguments)
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0)):
        # A file cannot be waited for, /dev/null neither: its end would never be seen.
        print("fresnel-tui: host-agent answers ssh, over a pipe", file=sys.stderr)
        return 2
    note_person()  # a program says so with what it asks for
    # Whatever prints goes to stderr: the line is the link's alone.
    line = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        # A login shell may have printed something before, and left its line open.
        os.write(line, b"\n" + MARKER)
    except BrokenPipeError:
        return 0
    # Nothing here speaks TLS: asyncio, which would load OpenSSL, does without.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    with quick_imports():
        from tui.agent.serve import serve

        del sys.modules["ssl"]
        if arguments:
            import tui.agent.follow
            import tui.agent.snapshots  # noqa: F401

    return serve(line)
