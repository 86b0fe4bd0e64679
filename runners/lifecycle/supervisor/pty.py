"""A terminal of a run's own, between the program and its output file, joined by `attach`.

Run as `python -I -S pty.py ARGV…`: it is below the waiter and above the program, so the terminal
survives the end of panel and supervisor. With `$FRESNEL_RUN_DIR` set it listens on `tty.sock`
there: several may watch, one types. Standard library only.

Messages are a type byte, a big-endian 32-bit length, and the payload. From a client: `A` attach
(JSON: rows, columns, take), `I` input, `S` size (JSON: rows, columns). To a client: `O` output, `T`
who types (`1` you, `0` another), `E` the program has ended (its exit status as text).
"""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time
from contextlib import suppress

COLUMNS, ROWS = 120, 40
SOCKET = "tty.sock"
STATUS = "tty.json"
_SCREENFUL = 32 << 10  # what a newcomer is shown of what was there before
_CLIENT_BACKLOG = 1 << 20
_QUIET_S = 1.0
_LAST_WORDS_S = 1.0
_PEER = struct.Struct("3i")
_HEADER = struct.Struct(">cI")
_READS = {"x86_64": "0", "aarch64": "63"}
FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""What a process that stands before a run's program passes on to it."""


def run_in_terminal(argv: list[str]) -> int:
    """Run `argv` on a new terminal; return its exit status (128 + signal where one ended it).

    Its output goes to standard output and to whoever is attached.
    """
    directory = os.environ.get("FRESNEL_RUN_DIR", "")
    # What comes before there is somebody to pass it on to waits: it would end this process alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    pid, terminal = pty.fork()
    if pid == 0:
        _prepare(1)  # here, not in the parent: the program's first line must not come before it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            os._exit(127)
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: _forward(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    keeper = Keeper(terminal, directory)
    keeper.run()
    _, status = os.waitpid(pid, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    keeper.close(code)
    return code


class _Client:
    """An attached client: its socket, what arrived in part, and what it has not taken yet."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.received = b""
        self.pending = b""
        self.attached = False

    def send(self, kind: bytes, payload: bytes) -> None:
        """Queue a message; a client that does not read loses some, and never delays the program."""
        if len(self.pending) < _CLIENT_BACKLOG:
            self.pending += _HEADER.pack(kind, len(payload)) + payload

    def flush(self) -> bool:
        """Send what the socket takes; False when the client has gone."""
        try:
            self.pending = self.pending[self.link.send(self.pending) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def messages(self) -> list[tuple[bytes, bytes]] | None:
        """The messages that have arrived whole; None when the client has gone."""
        try:
            block = self.link.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not block:
            return None
        self.received += block
        found = []
        while len(self.received) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self.received)
            # No client of ours sends that much: it is something else, or broken.
            if length > _CLIENT_BACKLOG:
                return None
            if len(self.received) < _HEADER.size + length:
                break
            found.append((kind, self.received[_HEADER.size : _HEADER.size + length]))
            self.received = self.received[_HEADER.size + length :]
        return found


class Keeper:
    """Owns the terminal: copies the program's output, and the input of the client that types."""

    def __init__(self, terminal: int, directory: str) -> None:
        self.terminal = terminal
        # A program that reads nothing takes no more at some time: its output goes on all the same.
        os.set_blocking(terminal, False)
        self.typed = b""
        """What the program has not taken yet."""
        self.directory = directory
        self.clients: list[_Client] = []
        self.typist: _Client | None = None
        self.recent = b""
        self.last_output = time.monotonic()
        self.noted_waiting = False
        self.listener = _listen(directory) if directory else None

    def run(self) -> None:
        """Copy until the last process on the terminal has gone."""
        while True:
            readers: list[int | socket.socket] = [self.terminal]
            readers += [client.link for client in self.clients]
            readers += [] if self.listener is None else [self.listener]
            writers: list[int | socket.socket] = [self.terminal] if self.typed else []
            writers += [client.link for client in self.clients if client.pending]
            try:
                ready, writable, _ = select.select(readers, writers, [], _QUIET_S)
            except InterruptedError:
                continue
            if self.terminal in ready and not self._copy():
                return
            if self.typed:
                self._pass_on()
            if self.listener is not None and self.listener in ready:
                self._welcome()
            for client in list(self.clients):
                if client.link in ready:
                    self._obey(client)
                if client.link in writable and not client.flush():
                    self._drop(client)
            self._note_waiting()

    def close(self, code: int) -> None:
        """Tell every client how the program ended, and remove the socket."""
        for client in self.clients:
            text = str(code).encode()
            # The last messages must arrive, but a client that hangs may not delay the exit status.
            client.link.settimeout(_LAST_WORDS_S)
            with suppress(OSError):
                client.link.sendall(client.pending + _HEADER.pack(b"E", len(text)) + text)
            client.link.close()
        if self.listener is not None:
            self.listener.close()
            for name in (SOCKET, STATUS):
                with suppress(OSError):
                    os.unlink(os.path.join(self.directory, name))

    def _copy(self) -> bool:
        try:
            block = os.read(self.terminal, 65536)
        except BlockingIOError:
            return True
        except OSError:
            return False  # EIO: the last process on the terminal has gone
        if not block:
            return False
        self.last_output = time.monotonic()
        # Whoever attaches later sees what led to the prompt, not an empty screen.
        self.recent = (self.recent + block)[-_SCREENFUL:]
        with suppress(OSError):  # a full disk loses output, never the run
            view = memoryview(block)
            while view:
                view = view[os.write(1, view) :]
        for client in self.clients:
            if client.attached:
                client.send(b"O", block)
        return True

    def _welcome(self) -> None:
        assert self.listener is not None
        try:
            link, _ = self.listener.accept()
            credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except OSError:
            return
        if _PEER.unpack(credentials)[1] not in (os.getuid(), 0):
            link.close()  # the folder is ours alone; this is for the day it was opened
            return
        link.setblocking(False)
        self.clients.append(_Client(link))

    def _obey(self, client: _Client) -> None:
        messages = client.messages()
        if messages is None:
            self._drop(client)
            return
        for kind, payload in messages:
            if kind == b"A":
                self._attach(client, payload)
            elif kind == b"S" and client is self.typist:
                self._resize(payload)
            elif kind == b"I" and client is self.typist:
                self._type(payload)

    def _attach(self, client: _Client, payload: bytes) -> None:
        request = _object(payload)
        client.attached = True
        client.send(b"O", self.recent)
        # One types at a time: the keys of two people would mix. Taking over is asked for.
        if self.typist is None or request.get("take"):
            if self.typist is not None and self.typist is not client:
                self.typist.send(b"T", b"0")
            self.typist = client
            self._resize(payload)
        client.send(b"T", b"1" if self.typist is client else b"0")

    def _type(self, payload: bytes) -> None:
        if len(self.typed) < _CLIENT_BACKLOG:
            self.typed += payload
        self.last_output = time.monotonic()

    def _pass_on(self) -> None:
        with suppress(OSError):  # there is no room yet; or it has ended: the next read says so
            self.typed = self.typed[os.write(self.terminal, self.typed) :]

    def _resize(self, payload: bytes) -> None:
        size = _object(payload)
        rows, columns = size.get("rows"), size.get("columns")
        if isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 2000 > columns > 0:
            with suppress(OSError):
                fcntl.ioctl(
                    self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0)
                )

    def _drop(self, client: _Client) -> None:
        # The next client may type: a run must not be left waiting for input that nobody can give.
        client.link.close()
        if client in self.clients:
            self.clients.remove(client)
        if self.typist is client:
            self.typist = next((client for client in self.clients if client.attached), None)
            if self.typist is not None:
                self.typist.send(b"T", b"1")

    def _note_waiting(self) -> None:
        """Write down whether the program waits for input, when that has changed."""
        quiet = time.monotonic() - self.last_output >= _QUIET_S
        waiting = bool(self.directory) and quiet and self._waits()
        if waiting == self.noted_waiting:
            return
        self.noted_waiting = waiting
        line = self.recent.rsplit(b"\n", 1)[-1].decode("utf-8", "replace")[-200:]
        content = {"waiting": waiting, "since": time.time(), "prompt": line if waiting else ""}
        draft = os.path.join(self.directory, f"{STATUS}.new")
        with suppress(OSError):  # a full disk: the run list does not show it, the run goes on
            with open(draft, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                json.dump(content, file)
            os.replace(draft, os.path.join(self.directory, STATUS))

    def _waits(self) -> bool:
        """True when the foreground program reads the terminal, or edits a line on it.

        A plain read is visible in /proc; line editors (readline, pdb) wait by select, but have
        taken the terminal out of its line mode and left a prompt without a line end.
        """
        try:
            group = os.tcgetpgrp(self.terminal)
            local_modes = termios.tcgetattr(self.terminal)[3]
        except (OSError, termios.error):
            return False
        # Out of line mode: a line editor or a full-screen program reads every key.
        if not local_modes & termios.ICANON:
            return bool(self.recent) and not self.recent.endswith(b"\n")
        return any(_reads_terminal(pid) for pid in _processes_of(group))


def _reads_terminal(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/syscall") as file:
            fields = file.read().split()
        # The first word is the number of the system call, read(2) here; only known machines count.
        if fields[0] != _READS.get(os.uname().machine):
            return False
        return os.readlink(f"/proc/{pid}/fd/{int(fields[1], 16)}").startswith("/dev/pts/")
    except (OSError, ValueError, IndexError):
        return False


def _processes_of(group: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getpgid(int(name)) == group:
                    found.append(int(name))
            except OSError:
                continue
    return found


def _listen(directory: str) -> "socket.socket | None":
    """A socket in the run's folder, by its short name: paths of over 107 bytes are not possible."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # Back afterwards by the descriptor: the folder's name may have changed.
    here = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.chdir(directory)
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)  # of an attempt before
        listener.bind(SOCKET)
        os.chmod(SOCKET, 0o600)
        listener.listen(8)
        listener.setblocking(False)
        return listener
    except OSError as error:
        os.write(2, f"fresnel-tui: attach will not work: {error}\n".encode())
        listener.close()
        return None
    finally:
        os.fchdir(here)
        os.close(here)


def _prepare(terminal: int) -> None:
    """Set the terminal's size, and keep it from turning \\n into \\r\\n in the log."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    settings = termios.tcgetattr(terminal)
    settings[1] &= ~termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, settings)


def _forward(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _object(payload: bytes) -> "dict[str, object]":
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def main() -> None:
    """Run the command of the command line in a pseudo-terminal."""
    sys.exit(run_in_terminal(sys.argv[1:]))


if __name__ == "__main__":
    main()
