"""Python programs forked from a process that has imported what they import.

A test that starts a program pays for the interpreter's start and the imports every time: a tenth of
a second for the command line, three for torch. Here a server pays once for all workers, and each
program is a fork of it: a process of its own all the same, with its own arguments, environment,
folder, streams, signals and exit code. What is about the start itself (the interpreter's flags, its
environment, what is imported) is started by `subprocess`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import warm_server
from tests.warm_server import ENDING, REQUEST_BYTES, program_at

OURS = ("FRESNEL_", "PYTEST_")
STARTING = ("PYTHON", "LANG", "LC_", "LD_", "TEXTUAL_", "TERM_PROGRAM")
"""What the names of variables begin with that only an interpreter's start or an import looks at."""
LAUNCHER = "torch.distributed.run"
RUN = "PYTEST_XDIST_TESTRUNUID"
"""The variable with a number that all workers of one run of the tests have."""


def take_terminal() -> None:
    """`preexec_fn` of a program in a session of its own whose terminal its streams shall be."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class WarmServer:
    """A process with some modules imported, that forks programs; all workers of a run of the tests
    ask the same one, and it ends with the last of them.
    """

    def __init__(self, *modules: str, **environment: str) -> None:
        self.modules = modules
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        self.inherited = inherited | environment
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
        if argv[0] == sys.executable and program_at(argv) and self._suits(options.get("env")):
            return _Forked(self, argv, **options)
        return subprocess.Popen(argv, **options)

    def client(self, module: str) -> str:
        """The words behind an interpreter's name that have the server, which runs, fork a module:
        for who starts it otherwise than by this class.
        """
        program = Path(warm_server.__file__).with_name("warm_client.py")
        return f"-I -S {program} {self._address()[1:]} -m {module}"

    def _suits(self, environment: Mapping[str, str] | None) -> bool:
        """Whether nothing in an environment is for an interpreter's start alone."""
        wanted = os.environ if environment is None else environment
        names = {name for name in (*wanted, *self.inherited) if name.startswith(STARTING)}
        return all(wanted.get(name) == self.inherited.get(name) for name in names - {"PYTHONPATH"})

    def ask(self, request: dict[str, Any], streams: Sequence[int]) -> socket.socket:
        """Have a program forked; returns where its pid and then its status are told."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            control = self.control = self.control or self._connect()
            given = [*streams, theirs.fileno(), *([control.fileno()] if request["forks"] else [])]
            socket.send_fds(control, [json.dumps(request).encode()], given)
        return mine

    def _address(self) -> str:
        """A name in the kernel alone, of this run of the tests and of what the server is."""
        asked = [self.modules, sorted(self.inherited.items())]
        kind = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]
        return f"\0fresnel-tests-{os.environ.get(RUN, os.getpid())}-{kind}"

    def _connect(self) -> socket.socket:
        """The way to ask the server; the first that asks starts it."""
        while True:
            control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
            # Refused before another has said that it listens, reset or empty when the server ends.
            with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
                control.connect(self._address())
                if control.recv(32):
                    return control
            control.close()
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            ):
                listener.bind(self._address())
                listener.listen()
                return self._begin(listener)

    def _begin(self, listener: socket.socket) -> socket.socket:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
        ways = [str(listener.fileno()), str(theirs.fileno())]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-E", warm_server.__file__, *ways, *self.modules],
                env=self.inherited,
                pass_fds=[listener.fileno(), theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        return mine


COMMANDS = WarmServer("tui.cli.*", "tui.cli.commands.*", "tui.agent.*")
"""What a headless command imports, and what ssh starts on a machine."""
PANELS = WarmServer(
    *("tui.cli.*", "tui.cli.commands.*", "tui.panel.*", "tui.panel.cockpit.*"),
    *("tui.panel.screens.*", "tui.panel.widgets.*"),
    LANG="C.UTF-8",
)
"""What the panel imports, for the terminals of `tests/terminal.py`."""
TORCH = WarmServer(
    *("torch", "torch.distributed.launcher.api", "torch.utils.data", "numpy", "scipy.spatial"),
    *("PIL.Image", "PIL.ImageDraw", "skimage.metrics", "diffusers", "nibabel", "tests.compiling"),
    "-matplotlib.backends.backend_agg",
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
)
"""What a trainer imports that is not ours; what draws curves, which takes a second at each training's
end, is hidden but from programs that have `warm_server.WHOLE` in their environment.
"""


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
            "terminal": rest[1] is take_terminal,
            "umask": _umask(),
            "ignored": [n for n in ENDING if signal.getsignal(n) is signal.SIG_IGN],
            "forks": LAUNCHER in args,
        }
        given = (read_in, write_out, write_errors)
        streams = [own if stream == -1 else stream for own, stream in enumerate(given)]
        self.told = self.server.ask(request, streams)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(self.told.recv(32))
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self.told.fileno() < 0:  # garbage in a circle: its socket went first
            return self.pid, signal.SIGKILL
        how = socket.MSG_DONTWAIT if flags & os.WNOHANG else 0
        try:
            # Twice: Linux may say that the other side has closed though it sent just before.
            told = self.told.recv(32, how) or self.told.recv(32, how)
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
