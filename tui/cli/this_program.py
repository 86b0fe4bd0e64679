"""How this command was started, so that the panel or another command is started the same way."""

import sys


def this_program() -> list[str]:
    """The words of this process's command line before its arguments."""
    own = len(sys.orig_argv) - len(sys.argv) + 1
    return [sys.executable, *sys.orig_argv[1:own]]
