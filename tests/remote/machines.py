"""Rented machines for tests: a real sshd each on a loopback port, with a home of its own, behind a
wire that can be cut.
"""

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.remote.users import LabUser, MachineDisk
from tests.support import REPOSITORY, eventually, free_port
from tests.warm import WarmServer

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

# The usual way to agree on keys is a third of what a connection costs the processor.
_CONFIGURATION = """\
Port {port}
KexAlgorithms curve25519-sha256
ListenAddress {listen}
HostKey {folder}/host_key
AuthorizedKeysFile {keys}
PidFile none
StrictModes no
PermitRootLogin yes
PrintMotd no
AcceptEnv none
Subsystem sftp internal-sftp
SetEnv {environment}
{more}
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
"""Of two lines that say one thing sshd takes the first: `more` has its way."""


class Wire:
    """A port in front of another: what goes through it can be cut at any byte, and slowed down."""

    def __init__(
        self,
        target: int,
        machine: str = "127.0.0.1",
        delay_s: float = 0.0,
        rate: float = 0.0,
        listen: str = "127.0.0.1",
    ) -> None:
        """`delay_s` each way; `rate` in bytes a second each way, 0 for as many as go."""
        self._target = machine, target
        self._delay_s, self._rate = delay_s, rate
        family = socket.AF_INET6 if ":" in listen else socket.AF_INET
        self._listener = socket.create_server((listen, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.is_open = True
        self.carried = 0
        """Bytes that came from the machine."""
        self.taken = 0
        """Bytes that went there."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Break every connection that goes through; how many there were."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        return len(pairs)

    def close(self) -> None:
        """Nothing goes through any more."""
        self.is_open = False
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if not self.is_open:
                    raise OSError
                far = socket.create_connection(self._target)
                if self._rate:
                    for end in (near, far):  # a slow line holds little
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BUFFER)
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SLOW_BUFFER)
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            threading.Thread(target=self._carry, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, True), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        due: queue.Queue[tuple[float, bytes]] = queue.Queue()
        if self._delay_s:
            threading.Thread(target=self._deliver, args=(due, sink), daemon=True).start()
        free = time.monotonic()
        try:
            while data := source.recv(4096 if self._rate else 65536):
                if counted:
                    self.carried += len(data)
                else:
                    self.taken += len(data)
                if self._rate:
                    free = max(free, time.monotonic()) + len(data) / self._rate
                    time.sleep(max(0.0, free - time.monotonic()))
                if self._delay_s:
                    due.put((time.monotonic() + self._delay_s, data))
                else:
                    sink.sendall(data)
        except OSError:
            pass
        due.put((0.0, b""))
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def _deliver(due: "queue.Queue[tuple[float, bytes]]", sink: socket.socket) -> None:
        while (one := due.get())[1]:
            time.sleep(max(0.0, one[0] - time.monotonic()))
            try:
                sink.sendall(one[1])
            except OSError:
                return


_SLOW_BUFFER = 64 << 10


class RentedMachine:
    """An sshd with one user (whoever runs the tests), its own home, a shell that may talk."""

    user: LabUser | None = None
    """Who logs in there, if not who runs the tests."""

    def __init__(
        self,
        folder: Path,
        name: str = "rented",
        more: str = "",
        listen: str = "127.0.0.1",
        space: str = "",
        disk: MachineDisk | None = None,
    ) -> None:
        """`space`: the network namespace that it runs in; `disk`: what its users see."""
        self.name = name
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.there = self.user.home if self.user else self.home
        """The home, as it is seen there."""
        self.port = free_port()
        self.key = folder / "client_key"
        self.environment = {
            "HOME": str(self.there),
            "FRESNEL_HOST": name,
            "FRESNEL_GPUS": "sim:2xMI300X",
            "FRESNEL_SAMPLER_LINGER_S": "2",
        }
        make_key(self.key)
        make_key(folder / "host_key")
        keys = self.home / ".ssh" / "authorized_keys"
        keys.parent.mkdir()
        keys.write_bytes((folder / "client_key.pub").read_bytes())
        self._more = more
        self._listen = listen
        self._space = ["ip", "netns", "exec", space] if space else []
        self._entering = disk.entering() if disk else []
        self.own(self.home)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.wire = Wire(self.port)

    def start(self) -> None:
        """Start the sshd, and wait until it listens."""
        file = self.folder / "sshd_config"
        file.write_text(
            _CONFIGURATION.format(
                port=self.port,
                listen=self._listen,
                folder=self.folder,
                keys=self.there / ".ssh" / "authorized_keys",
                environment=" ".join(f'"{k}={v}"' for k, v in self.environment.items()),
                more=self._more,
            )
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        assert SSHD is not None
        self._process = subprocess.Popen(
            [*self._space, *self._entering, SSHD, "-D", "-e", "-f", file],
            stdin=subprocess.DEVNULL,
            stderr=(self.folder / "sshd.log").open("ab"),
            start_new_session=True,
        )
        eventually(self._listens, what="an sshd")

    def _listens(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"no sshd: {(self.folder / 'sshd.log').read_text()}")
        if self._space:
            said = subprocess.run([*self._space, "ss", "-Hltn"], capture_output=True, text=True)
            return f":{self.port} " in said.stdout
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End the sshd; whoever is logged in stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            self._process = None
            # The process that takes in a connection is a copy, and has the port for a moment longer.
            eventually(self._is_free, what="its port free")

    def _is_free(self) -> bool:
        if self._space:
            return not self._listens()
        family = socket.AF_INET6 if ":" in self._listen else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._listen, self.port))
            except OSError:
                return False
        return True

    def new_host_key(self) -> None:
        """Another machine under the same address."""
        self.stop()
        for path in self.folder.glob("host_key*"):
            path.unlink()
        make_key(self.folder / "host_key")
        self.start()

    @property
    def options(self) -> list[str]:
        """The words with which `host add` reaches it through its wire, with its own key."""
        found = [f"IdentityFile={self.key}", "IdentitiesOnly=yes"]
        return [word for option in found for word in ("--ssh-option", option)]

    @property
    def address(self) -> str:
        """Where it is reached."""
        import getpass

        return f"{getpass.getuser()}@127.0.0.1:{self.wire.port}"

    def own(self, path: Path) -> None:
        """Give what lies in its home to who logs in there."""
        if self.user is not None:
            self.user.own(path)

    def write(self, name: str, text: str) -> Path:
        """Write a file in its home; the folder it lies in may be a new one of there."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        top = self.home / Path(name).parts[0]
        self.own(top)
        return path

    def install(self, server: WarmServer | None = None) -> Path:
        """A launcher of this very source, as `host setup` leaves one; where it is there. With a
        server that runs here, what it starts is forked from that.
        """
        launcher = self.home / "bin" / "fresnel-tui"
        launcher.parent.mkdir(exist_ok=True)
        program = "-m tui" if server is None else server.client("tui")
        launcher.write_text(
            f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} {program} "$@"\n'
        )
        launcher.chmod(0o755)
        return self.there / "bin" / "fresnel-tui"

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.home / ".local" / "state" / "fresnel-tui"


def make_key(path: Path) -> None:
    """An ed25519 key pair without a passphrase."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, capture_output=True
    )


def why_not() -> str:
    """Why no sshd can be had here; empty when it can."""
    missing = [tool for tool in ("ssh", "ssh-keygen") if shutil.which(tool) is None]
    if SSHD is None:
        missing.append("sshd")
    return f"no {', '.join(missing)} here" if missing else ""


needs_sshd = pytest.mark.skipif(bool(why_not()), reason=why_not() or "sshd is here")
