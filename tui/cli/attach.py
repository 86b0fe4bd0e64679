"""`attach` and `shell`: a run's own terminal, and a shell with what the run has."""

import argparse
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty
from pathlib import Path

from runners.host.procfs import MARK
from runners.lifecycle.supervisor.pty import SOCKET
from runners.model.errors import ExitCode, FresnelError, WrongInput
from runners.model.kept_secrets import MASK
from runners.model.run import Run
from runners.scheduling.visibility import ALL_VARIABLES
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.output import control, echo

DETACH = b"\x1d"
"""Ctrl+], as in telnet: nothing that a program on a terminal is likely to want."""
_HEADER = struct.Struct(">cI")


def run_attach(arguments: argparse.Namespace) -> int:
    """Join a run's terminal until Ctrl+], its end, or the connection's end; the run goes on."""
    run = find_run(StateDirectory(), arguments.run)
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise WrongInput(
            "attach needs a terminal", f"fresnel-tui logs -f {run.id} shows its output"
        )
    link = _connect(run)
    echo(f"attached to {run.id}; Ctrl+] detaches and the run goes on")
    before = termios.tcgetattr(0)
    reading, waking = os.pipe()
    # Through a pipe: a signal's handler must not write to the socket in the middle of a message.
    signal.signal(signal.SIGWINCH, lambda *_: os.write(waking, b"w"))
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is not thrown away
        _send(link, b"A", json.dumps(_size() | {"take": arguments.take}).encode())
        code = _exchange(link, reading)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        link.close()
    # Colours and a hidden cursor that the program set would stay in the user's own shell.
    control("\x1b[0m\x1b[?25h\n")
    if code is None:
        echo(f"detached from {run.id}, which goes on: fresnel-tui attach {run.id} joins it again")
        return ExitCode.DONE
    echo(f"{run.id} has ended, exit code {code}")
    return ExitCode.DONE if code == 0 else ExitCode.RUN_FAILED


def run_shell(arguments: argparse.Namespace) -> int:
    """Become a shell with the run's environment, folder and GPUs; it is no part of the run."""
    run = find_run(StateDirectory(), arguments.run)
    if run.plan is None:
        raise WrongInput(f"{run.id} has lost its plan: its environment is not known")
    secret = [name for name, value in run.plan.environment.items() if value == MASK]
    environment = {
        # The mark would make the shell a part of the run: ended with it, and holding its GPUs.
        name: value
        for name, value in os.environ.items()
        if name not in (*ALL_VARIABLES, MARK)
    }
    environment |= {
        name: value for name, value in run.plan.environment.items() if name not in secret
    }
    environment["FRESNEL_SHELL_OF"] = run.id
    if secret:
        echo(f"{', '.join(secret)}: secrets are never stored; set them yourself")
    folder = run.plan.working_directory
    gpus = ",".join(str(gpu.index) for gpu in run.plan.gpus) or "none"
    remark = (
        "it is running: you share its GPUs" if run.is_live and run.plan.gpus else "exit leaves it"
    )
    echo(f"a shell of {run.id} in {folder}, GPUs {gpus}; {remark}")
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        os.chdir(folder)
        os.execvpe(shell, [shell, *(["-c", arguments.do] if arguments.do else [])], environment)
    except OSError as error:
        raise FresnelError(f"{error.filename or shell}: {error.strerror}") from None


def _connect(run: Run) -> socket.socket:
    """The run's terminal; by its short name, for a long path has no socket address."""
    if run.plan is not None and not run.plan.spec.terminal:
        raise WrongInput(
            f"{run.id} has no terminal of its own",
            "launch it with --tty (preset: tty: true); fresnel-tui logs -f shows its output",
        )
    if not run.is_live:
        raise WrongInput(f"{run.id} is {run.state}", f"fresnel-tui logs {run.id} shows its output")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    folder = Path.cwd()
    try:
        # A socket's address has room for about a hundred characters.
        os.chdir(run.directory)
        link.connect(SOCKET)
    except OSError as error:
        link.close()
        raise FresnelError(
            f"the terminal of {run.id} cannot be reached: {error.strerror}", "try again in a moment"
        ) from None
    finally:
        os.chdir(folder)
    return link


def _exchange(link: socket.socket, resized: int) -> int | None:
    """Copy between here and there; the program's exit code, or None when somebody left."""
    received = b""
    while True:
        sources: list[int | socket.socket] = [0, link, resized]
        ready, _, _ = select.select(sources, [], [])
        if resized in ready:
            os.read(resized, 4096)
            _send(link, b"S", json.dumps(_size()).encode())
        if 0 in ready:
            typed = os.read(0, 4096)
            before, detach, _ = typed.partition(DETACH)
            if before:
                _send(link, b"I", before)
            if detach or not typed:
                return None
        if link not in ready:
            continue
        block = link.recv(65536)
        if not block:
            return None
        received += block
        while len(received) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(received)
            if len(received) < _HEADER.size + length:
                break
            payload = received[_HEADER.size : _HEADER.size + length]
            received = received[_HEADER.size + length :]
            if kind == b"E":
                return int(payload or b"0")
            _show(kind, payload)


def _show(kind: bytes, payload: bytes) -> None:
    if kind == b"O":
        # The run's log has bare newlines; a raw terminal wants the return too.
        view = memoryview(payload.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
        while view:
            view = view[os.write(1, view) :]
    elif kind == b"T" and payload == b"0":
        os.write(1, b"\r\n[fresnel-tui: another terminal types; attach --take takes over]\r\n")


def _send(link: socket.socket, kind: bytes, payload: bytes) -> None:
    link.sendall(_HEADER.pack(kind, len(payload)) + payload)


def _size() -> dict[str, object]:
    try:
        packed = fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8)
        rows, columns, _, _ = struct.unpack("HHHH", packed)
    except OSError:
        rows = columns = 0
    return {"rows": rows or 24, "columns": columns or 80}
