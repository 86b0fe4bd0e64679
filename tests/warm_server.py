"""The process that programs are forked from: it imports some modules, then forks at every request.

Run by `tests/warm.py`, which says what it imports and where it is asked. It ends with the last
process that asks it.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REQUEST_BYTES = 1 << 18
CONTROL = 3
"""Where a launcher's fork finds the way to ask the server for its ranks."""
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""What a program ignores when whoever started it did; the server was started by somebody else."""
WHOLE = "PYTEST_WHOLE"
"""The variable of a program that has what is hidden from others."""
HIDDEN: dict[str, Any] = {}
ORDINARY = frozenset({"-P", "-u"})
"""Flags of the interpreter that a fork can do without or play."""


def program_at(argv: Sequence[str]) -> int | None:
    """Where in an interpreter's arguments its program begins: `-m`, `-c` or a file; None with flags
    that only an interpreter's start can do.
    """
    for at, word in enumerate(argv[1:], 1):
        if word in ("-m", "-c") or not word.startswith("-"):
            return at
        if word not in ORDINARY:
            return None
    return None


class Server:
    """Forks a program for every request, and tells whoever asked how each has ended."""

    def __init__(self, listener: socket.socket, first: socket.socket) -> None:
        self.listener = listener
        self.asking = {first}
        self.told: dict[int, socket.socket] = {}

    def serve(self) -> dict[str, Any]:
        """Returns its request in each fork, and never here."""
        ended = self._watch_children()
        while True:
            ready, _, _ = select.select([self.listener, ended, *self.asking], [], [])
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            for control in self.asking & set(ready):
                request = self._answer(control)
                if request:
                    return request
            if self.listener in ready:
                self._accept()
            if not self.asking and not self._accept():
                os._exit(0)

    def _watch_children(self) -> int:
        """A pipe in which something is written when a child has ended.

        A signal that comes just before a call that waits does not end it, but the byte it writes
        does.
        """
        ended, wakes = os.pipe()
        os.set_blocking(ended, False)
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl+C goes to all of a terminal's group; what the tests then still need is theirs to end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return ended

    def _accept(self) -> bool:
        """Take in another process that asks, where there is one; it learns that it was taken in."""
        self.listener.setblocking(False)
        try:
            control, _ = self.listener.accept()
        except BlockingIOError:
            return False
        control.setblocking(True)
        send(control, os.getpid())
        self.asking.add(control)
        return True

    def _answer(self, control: socket.socket) -> dict[str, Any] | None:
        """Fork what is asked for; returns the request in the fork."""
        try:
            message, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 5)
        except ConnectionResetError:  # killed before it has read that it was taken in
            message, descriptors = b"", []
        if not message:
            self.asking.remove(control)
            control.close()
            return None
        # What is sent to the fork before it is itself waits until it is.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        pid = os.fork()
        if pid == 0:
            request: dict[str, Any] = json.loads(message)
            at_once = "-u" in request["argv"] or request["environment"].get("PYTHONUNBUFFERED")
            _take(descriptors[:3], descriptors[4:], request["ignored"], bool(at_once))
            return request
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.told[pid] = socket.socket(fileno=descriptors.pop(3))
        send(self.told[pid], pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _reap(self) -> None:
        """Tell how those ended that have ended."""
        while self.told:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self.told.pop(pid) as out:
                send(out, status)


def send(out: socket.socket, number: int) -> None:
    """Send a number to whoever asked, if it still wants to know."""
    try:
        out.send(str(number).encode())
    except (BrokenPipeError, ConnectionResetError):  # the latter where something lies unread
        pass


def _take(
    streams: Sequence[int], control: Sequence[int], ignored: Collection[int], unbuffered: bool
) -> None:
    """Be a process of its own: its streams, and signals as an interpreter starts with them."""
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
    for descriptor in control:
        os.dup2(descriptor, CONTROL, inheritable=False)
    os.closerange(CONTROL + len(control), 1 << 16)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    if signal.SIGINT not in ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1, "strict", unbuffered)
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace", unbuffered)


def _stream(descriptor: int, errors: str, unbuffered: bool) -> io.TextIOWrapper:
    lines = descriptor == 2 or os.isatty(descriptor)
    raw: Any = open(descriptor, "wb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=lines, write_through=unbuffered)


def _program(request: Mapping[str, Any], path: Sequence[str]) -> Callable[[], object]:
    """What an interpreter would do with these arguments, ready to be called."""
    argv: list[str] = request["argv"]
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.environ.pop(WHOLE, ""):
        sys.modules.update(HIDDEN)
    os.chdir(request["folder"])
    os.umask(request["umask"])
    time.tzset()
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    at = program_at(argv)
    assert at is not None
    is_file = argv[at] not in ("-m", "-c")
    named = os.environ.get("PYTHONPATH", "")
    first = [] if "-P" in argv[1:at] else [str(Path(argv[at]).parent) if is_file else os.getcwd()]  # noqa: PTH109
    sys.path[:] = [*first, *filter(None, named.split(os.pathsep)), *path]
    sys.argv, sys.orig_argv = argv[at + (not is_file) :], argv
    if request["forks"]:
        _fork_ranks()
    if "address" in request:
        _fork_commands(request["address"])
    if is_file:
        return lambda: runpy.run_path(argv[at], run_name="__main__")
    if argv[at] == "-m":
        return lambda: runpy.run_module(argv[at + 1], run_name="__main__", alter_sys=True)
    return lambda: exec(argv[at + 1], {"__name__": "__main__"})


def _fork_ranks() -> None:
    """Have torchrun's ranks forked by the server too."""
    import inspect

    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    from tests.warm import WarmServer

    server = WarmServer()
    server.control = socket.socket(fileno=CONTROL)
    server.inherited = dict(os.environ)
    subprocess_handler.Popen = lambda args, **options: server.start(args, **options)
    # Each step of a rendezvous asks who has called it, and with that all modules for their files.
    inspect.getmodule = lambda *_: None


def _fork_commands(address: str) -> None:
    """Have the commands that an agent is asked for forked by the server too."""
    import asyncio

    start = asyncio.create_subprocess_exec
    client = str(Path(__file__).with_name("warm_client.py"))

    def forked(program: Any, *words: Any, **options: Any) -> Any:
        if words[:2] == ("-E", "-c"):
            words = ("-I", "-S", client, address, *words[1:])
        return start(program, *words, **options)

    asyncio.create_subprocess_exec = forked  # type: ignore[assignment]


def _import(names: Iterable[str]) -> None:
    """Import modules, or with `.*` behind its name all that a package holds; one with `-` before its
    name is from then on none that is installed, but for programs that have all.
    """
    for name in names:
        if name.startswith("-"):
            _import([name[1:]])
            if name[1:] in sys.modules:
                HIDDEN[name[1:]] = sys.modules[name[1:]]
            sys.modules[name[1:]] = None  # type: ignore[assignment]
            continue
        package = name.removesuffix(".*")
        try:
            found = import_module(package)
        except ImportError:
            continue
        if package != name:
            _import(f"{package}.{module.name}" for module in iter_modules(found.__path__))


def _compile_patterns() -> None:
    """Compile what `late_pattern` compiles at its first use, in every fork anew."""
    for found in gc.get_objects():
        if type(found).__name__ == "_LatePattern":
            found.search  # noqa: B018


def _main() -> dict[str, Any]:
    sys.path[0] = str(ROOT)
    listener, first = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    _import(sys.argv[3:])
    _compile_patterns()
    gc.freeze()
    return Server(listener, first).serve()


def _run(program: Callable[[], object]) -> None:
    """Run a program and end as an interpreter does, but leave the memory to the kernel: taking down
    all that the server has imported costs a third of a second and nobody sees it.

    An exception that nobody caught goes on to the interpreter, which knows what to do with it.
    """
    code = 0
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        program()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = 120
    os._exit(code & 0xFF)


if __name__ == "__main__":
    # Each fork comes out here and is then a program like any other.
    _run(_program(_main(), sys.path[1:]))
