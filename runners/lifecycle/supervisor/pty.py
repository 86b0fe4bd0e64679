"""A pseudo-terminal between a program and its output file, for programs that insist on one.

Run as `python -I -S terminal.py ARGV…`: it stands below the waiter and above the program, so that
neither the panel nor the supervisor can take the terminal away by dying. Standard library only.
"""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios

COLUMNS, ROWS = 120, 40
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def run_in_terminal(argv: list[str]) -> int:
    """Run `argv` on a new terminal, copy what it shows to standard output, return its exit status
    (128+signal).
    """
    pid, terminal = pty.fork()
    if pid == 0:
        _prepare(1)  # here, not in the parent: the program's first line must not come before it
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            os._exit(127)
    for number in _FORWARDED:
        signal.signal(number, lambda received, _frame: _forward(pid, received))
    _copy(terminal)
    _, status = os.waitpid(pid, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _prepare(terminal: int) -> None:
    """Give the terminal its size, and stop it from turning \\n into \\r\\n.

    A log wants its lines as written.
    """
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    settings = termios.tcgetattr(terminal)
    settings[1] &= ~termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, settings)


def _forward(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _copy(terminal: int) -> None:
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:
            return  # EIO: the last process on the terminal has gone
        if not block:
            return
        view = memoryview(block)
        try:
            while view:
                view = view[os.write(1, view) :]
        except OSError:
            continue  # a full disk loses output, never the run


def main() -> None:
    """Run the command of the command line in a pseudo-terminal."""
    sys.exit(run_in_terminal(sys.argv[1:]))


if __name__ == "__main__":
    main()
