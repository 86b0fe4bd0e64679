"""`reset-terminal`: mends a terminal whose panel was killed before it could give it back."""

import argparse
import os
import sys
import termios
from contextlib import suppress

from runners.model.errors import WrongInput
from tui.views.safe import SWITCHED_OFF


def run_reset_terminal(arguments: argparse.Namespace) -> None:
    """Switch off what a panel switches on, and let the terminal echo and edit lines again."""
    if not sys.stdout.isatty():
        raise WrongInput("standard output is no terminal", "run it in the one to be mended")
    # Past `sys.stdout`, which lets no control sequence through.
    os.write(sys.stdout.fileno(), SWITCHED_OFF.encode())
    with suppress(termios.error):
        _cook(sys.stdout.fileno())


def _cook(terminal: int) -> None:
    """The usual settings of a line: it echoes, is edited, and signals are sent by keys."""
    state = termios.tcgetattr(terminal)
    state[0] |= termios.BRKINT | termios.ICRNL | termios.IXON
    state[1] |= termios.OPOST | termios.ONLCR
    state[3] |= termios.ISIG | termios.ICANON | termios.ECHO | termios.ECHOE | termios.IEXTEN
    termios.tcsetattr(terminal, termios.TCSADRAIN, state)
