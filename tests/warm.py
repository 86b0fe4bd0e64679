"""Python programs forked from a process that has imported what they import.

A test that starts a program pays for the interpreter's start and the imports every time: a tenth of
a second for the command line, three for torch. Here a server pays once per test process, and each
program is a fork of it: a process of its own all the same, with its own arguments, environment,
folder, streams, signals and exit code. What is about the start itself (the interpreter's flags, its
environment, what is imported) is started by `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REQUEST_BYTES = 1 << 18
OURS = ("FRESNEL_", "PYTEST_")
STARTING = ("PYTHON", "LANG", "LC_", "LD_")
"""What the names of variables begin with that only an interpreter's start looks at."""
LAUNCHER = "torch.distributed.run"
CONTROL = 3
"""Where a launcher's fork finds the way to ask the server for its ranks."""
ORDINARY = frozenset({"-P", "-u"})
"""Flags of the interpreter that a fork can do without or play."""


class WarmServer:
    """A process with some modules imported, that forks programs; it ends with this one."""

    def __init__(self, *modules: str, **environment: str) -> None:
        self.modules = modules
        self.inherited = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        self.environment = environment
        self.control: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """`subprocess.run` of a Python program, without `input`."""
        timeout, check = options.pop("timeout", None), options.pop("check", False)
        if options.pop("capture_output", False):
            options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.start(argv, **options) as process:
            try:
                out, errors = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(argv, process.returncode, out, errors)
        if check:
            done.check_returncode()
        return done

    def start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """`subprocess.Popen` of a Python program."""
        if argv[0] == sys.executable and _program_at(argv) and self._suits(options.get("env")):
            return _Forked(self, argv, **options)
        return subprocess.Popen(argv, **options)

    def _suits(self, environment: Mapping[str, str] | None) -> bool:
        """Whether nothing in an environment is for an interpreter's start alone."""
        wanted = os.environ if environment is None else environment
        names = {name for name in (*wanted, *self.inherited) if name.startswith(STARTING)}
        return all(wanted.get(name) == self.inherited.get(name) for name in names - {"PYTHONPATH"})

    def ask(self, request: dict[str, Any], streams: Sequence[int]) -> socket.socket:
        """Have a program forked; returns where its pid and then its status are told."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            control = self.control or self._begin()
            given = [*streams, theirs.fileno(), *([control.fileno()] if request["forks"] else [])]
            socket.send_fds(control, [json.dumps(request).encode()], given)
        return mine

    def _begin(self) -> socket.socket:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-E", __file__, str(theirs.fileno()), *self.modules],
                env={**self.inherited, **self.environment},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.control = mine
        return mine


COMMANDS = WarmServer("tui.cli.*", "tui.cli.commands.*")
"""What a headless command imports."""
TORCH = WarmServer(
    *("torch", "torch.distributed.launcher.api", "torch.utils.data", "numpy", "scipy.spatial"),
    *("PIL.Image", "matplotlib.pyplot", "skimage.metrics", "diffusers", "nibabel", "numba"),
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
)
"""What a trainer imports that is not ours."""


class _Forked(subprocess.Popen[Any]):
    """A program that the server has forked; it is the server's child, which tells how it ended."""

    def __init__(self, server: WarmServer, argv: Sequence[str], **options: Any) -> None:
        self.server = server
        super().__init__(argv, **options)

    def _execute_child(self, args: Any, *rest: Any) -> None:
        folder, environment = rest[4], rest[5]
        read_in, _, _, write_out, _, write_errors = pipes = rest[9:15]
        request = {
            "argv": [os.fspath(word) for word in args],
            "environment": dict(os.environ if environment is None else environment),
            "folder": os.fspath(folder or Path.cwd()),
            "session": bool(rest[20]),
            "umask": _umask(),
            "forks": LAUNCHER in args,
        }
        given = (read_in, write_out, write_errors)
        streams = [own if stream == -1 else stream for own, stream in enumerate(given)]
        self.told = self.server.ask(request, streams)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(self.told.recv(32))
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        try:
            told = self.told.recv(32, socket.MSG_DONTWAIT if flags & os.WNOHANG else 0)
        except BlockingIOError:
            return 0, 0
        self.told.close()
        return self.pid, int(told or signal.SIGKILL)

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def _umask() -> int:
    found = os.umask(0o77)
    os.umask(found)
    return found


def _program_at(argv: Sequence[str]) -> int | None:
    """Where in an interpreter's arguments its program begins: `-m` or a file; None with flags that
    only an interpreter's start can do.
    """
    for at, word in enumerate(argv[1:], 1):
        if word == "-m" or not word.startswith("-"):
            return at
        if word not in ORDINARY:
            return None
    return None


def _serve(control: socket.socket) -> dict[str, Any]:
    """Fork a program for every request; returns its request in each fork, and never here."""
    told: dict[int, socket.socket] = {}
    # A signal that comes just before a call that waits does not end it, but the byte it writes does.
    ended, wakes = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Ctrl+C goes to all of a terminal's group; what the tests then still need is theirs to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([control, ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            _reap(told)
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 5)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            request: dict[str, Any] = json.loads(message)
            at_once = "-u" in request["argv"] or request["environment"].get("PYTHONUNBUFFERED")
            _take(descriptors[:3], descriptors[4:], bool(at_once))
            return request
        told[pid] = socket.socket(fileno=descriptors.pop(3))
        _send(told[pid], pid)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(told: dict[int, socket.socket]) -> None:
    """Tell how those ended that have ended."""
    while told:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with told.pop(pid) as out:
            _send(out, status)


def _send(out: socket.socket, number: int) -> None:
    try:
        out.send(str(number).encode())
    except BrokenPipeError:
        pass  # nobody waits for this one any more


def _take(streams: Sequence[int], control: Sequence[int], unbuffered: bool) -> None:
    """Be a process of its own: its streams, and signals as an interpreter starts with them."""
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
    for descriptor in control:
        os.dup2(descriptor, CONTROL, inheritable=False)
    os.closerange(CONTROL + len(control), 1 << 16)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
    os.chdir(request["folder"])
    os.umask(request["umask"])
    time.tzset()
    if request["session"]:
        os.setsid()
    at = _program_at(argv)
    assert at is not None
    is_module = argv[at] == "-m"
    named = os.environ.get("PYTHONPATH", "")
    first = [] if "-P" in argv[1:at] else [os.getcwd() if is_module else str(Path(argv[at]).parent)]  # noqa: PTH109
    sys.path[:] = [*first, *filter(None, named.split(os.pathsep)), *path]
    sys.argv, sys.orig_argv = argv[at + is_module :], argv
    if request["forks"]:
        _fork_ranks()
    if is_module:
        return lambda: runpy.run_module(argv[at + 1], run_name="__main__", alter_sys=True)
    return lambda: runpy.run_path(argv[at], run_name="__main__")


def _fork_ranks() -> None:
    """Have torchrun's ranks forked by the server too."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    server = WarmServer()
    server.control = socket.socket(fileno=CONTROL)
    server.inherited = dict(os.environ)
    subprocess_handler.Popen = lambda args, **options: server.start(args, **options)


def _main() -> dict[str, Any]:
    sys.path[0] = str(ROOT)
    for name in sys.argv[2:]:
        _import(name)
    gc.freeze()
    return _serve(socket.socket(fileno=int(sys.argv[1])))


def _import(name: str) -> None:
    """Import a module, or with `.*` behind its name all that a package holds."""
    package = name.removesuffix(".*")
    try:
        found = import_module(package)
    except ImportError:
        return
    if package != name:
        for one in iter_modules(found.__path__, f"{package}."):
            _import(one.name)


def _run(program: Callable[[], object]) -> None:
    """Run a program and end as an interpreter does, but leave the memory to the kernel: taking down
    all that the server has imported costs a third of a second and nobody sees it.

    An exception that nobody caught goes on to the interpreter, which knows what to do with it.
    """
    code = 0
    try:
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
