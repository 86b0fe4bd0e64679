"""`reset-terminal`: mends a terminal whose panel was killed before it could give it back."""

import argparse
import os
import sys
import termios
from contextlib import suppress

from runners.model.errors import WrongInput

SEQUENCES = (
    "\x1b[<u"  # Kitty's keyboard protocol
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # the mouse
    "\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[?2048l"  # focus, pasting, updates at once, sizes
    "\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[0m\x1b(B"  # screen, cursor, wrapping, colours, letters
)
"""What a panel switches on, switched off. xterm, "Control Sequences", and Kitty's protocols."""


def run_reset_terminal(arguments: argparse.Namespace) -> None:
    """Switch off what a panel switches on, and let the terminal echo and edit lines again."""
    if not sys.stdout.isatty():
        raise WrongInput("standard output is no terminal", "run it in the one to be mended")
    # Past `sys.stdout`, which lets no control sequence through.
    os.write(sys.stdout.fileno(), SEQUENCES.encode())
    with suppress(termios.error):
        _cook(sys.stdout.fileno())


def _cook(terminal: int) -> None:
    """The usual settings of a line: it echoes, is edited, and signals are sent by keys."""
    state = termios.tcgetattr(terminal)
    state[0] |= termios.BRKINT | termios.ICRNL | termios.IXON
    state[1] |= termios.OPOST | termios.ONLCR
    state[3] |= termios.ISIG | termios.ICANON | termios.ECHO | termios.ECHOE | termios.IEXTEN
    termios.tcsetattr(terminal, termios.TCSADRAIN, state)
