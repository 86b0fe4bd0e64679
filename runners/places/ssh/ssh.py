"""The system's ssh, as every link, copy and login uses it: strict about keys, and never asking.

Facts: sshd's MaxSessions counts per connection, and ssh falls back to a connection of its own when
a shared one refuses; Debian's ssh sets ServerAliveInterval 300 under BatchMode, so it is said here;
a socket's path holds about 104 bytes.
"""

import hashlib
import os
import shlex
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Literal

from runners.model.errors import DeniedError, ExitCode, FresnelError, WrongInput
from runners.places.ssh.output_tail import OutputTail
from runners.places.ssh.registry import RemoteHost, RemoteRegistry, address_text

Sharing = Literal["never", "use", "keep", "open"]
"""A shared connection: none; one that is there; one that is there or left behind for a minute; one
that stays until it is closed."""

_MOST_OUTPUT = 16 << 20
"""Bytes that a short command may print; what is before them is not kept."""

_SHARING = {
    "never": ("ControlMaster=no", "ControlPath=none"),
    "use": ("ControlMaster=no",),
    "keep": ("ControlMaster=auto", "ControlPersist=60"),
    "open": ("ControlMaster=auto", "ControlPersist=yes"),
}
_STRICT = (
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=/dev/null",
    "KnownHostsCommand=none",
    "CheckHostIP=no",
    "UpdateHostKeys=no",
    "HashKnownHosts=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ConnectTimeout=15",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "RemoteCommand=none",
    "LogLevel=ERROR",
)
_BEFORE_LOGIN = (b"kex_exchange_identification", b"banner exchange")
"""In ssh's words where the server hung up before anybody had logged in (OpenSSH's `kex.c`)."""
GREETS_AGAIN_AFTER_S = (0.3, 1.0)
"""Pauses before another try after that, which a server does that is asked by many at once (sshd's
MaxStartups): nothing has been done there."""


class Trouble(str, Enum):
    """Why a machine is not reached."""

    NOT_REACHED = "not reached"
    KEY_CHANGED = "its host key has changed"
    LOGIN = "a login is needed"
    SILENT = "it does not answer"
    ONE_SESSION = "it allows one session at a time"
    NO_AGENT = "the panel is not installed there"
    NOT_UNDERSTOOD = "its answers cannot be parsed"


class RemoteTrouble(FresnelError):
    """A machine that is not reached, or not as it should be; `kind` says which."""

    exit_code = ExitCode.DENIED

    def __init__(self, kind: Trouble, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.kind = kind


class Ssh:
    """How one machine is reached."""

    def __init__(self, registry: RemoteRegistry, host: RemoteHost) -> None:
        self.registry = registry
        self.host = host

    def command(
        self,
        sharing: Sharing,
        batch: bool = True,
        compress: bool = False,
        extra: Sequence[str] = (),
        terminal: bool = False,
    ) -> list[str]:
        """The argv of ssh up to, and without, the destination."""
        argv = ["ssh", "-tt" if terminal else "-T"]
        # First come, first served: what is strict stands before the user's own options.
        for option in (*extra, *_STRICT, *_SHARING[sharing]):
            argv += ["-o", option]
        if sharing != "never":
            argv += ["-o", f"ControlPath={self.control_path}"]
        argv += ["-o", f"UserKnownHostsFile={self.registry.known_hosts(self.host.name)}"]
        argv += ["-o", f"HostKeyAlias=fresnel-{self.host.name}"]
        argv += ["-o", f"BatchMode={'yes' if batch else 'no'}"]
        if compress:
            argv += ["-o", "Compression=yes"]
        for option in self.host.options:
            argv += ["-o", option]
        return argv + (["-p", str(self.host.port)] if self.host.port else [])

    @property
    def link_sharing(self) -> Sharing:
        """How a link connects: by itself, so that no copy delays it, or over a person's login."""
        return "use" if self.host.interactive else "never"

    @property
    def control_path(self) -> Path:
        """The socket of the connection that commands share."""
        text = f"{self.registry.folder(self.host.name)}"
        return _socket_folder() / hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(
        self, remote: str, given: bytes = b"", timeout_s: float = 60.0, sharing: Sharing = "keep"
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one short command line there, with `given` on its stdin. RemoteTrouble when the
        machine is not reached.
        """
        argv = [*self.command(sharing), "--", self.host.address, remote]
        for pause_s in (*GREETS_AGAIN_AFTER_S, None):
            done = self._run_once(argv, given, timeout_s)
            if done.returncode != 255:
                break
            if pause_s is None or not hung_up_before_login(done.stderr):
                raise self.trouble(done.stderr.decode("utf-8", "replace"))
            time.sleep(pause_s)
        return done

    def _run_once(
        self, argv: Sequence[str], given: bytes, timeout_s: float
    ) -> "subprocess.CompletedProcess[bytes]":
        stderr, output = OutputTail(), OutputTail(_MOST_OUTPUT)
        with stderr.listening() as errors, output.listening() as sink:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=sink, stderr=errors)
        try:
            process.communicate(given, timeout_s)
            return subprocess.CompletedProcess(argv, process.returncode, output.data, stderr.data)
        except subprocess.TimeoutExpired:
            raise RemoteTrouble(
                Trouble.NOT_REACHED,
                f"{self.host.name}: no answer within {timeout_s:.0f} s",
                "`fresnel-tui host test` tests the connection",
            ) from None
        finally:
            process.kill()  # nothing happens to one that has ended
            process.wait()
            stderr.close()
            output.close()

    def trouble(self, errors: str) -> RemoteTrouble:
        """What ssh's own words mean."""
        name, last = self.host.name, _last_line(errors)
        if "Host key verification failed" in errors and f"fresnel-{name}" not in errors:
            return RemoteTrouble(
                Trouble.NOT_REACHED,
                f"a machine on the way to {name} shows a host key that is not known, or another",
                "it is the one that ProxyJump names: log in to it once by hand, with ssh",
            )
        if "IDENTIFICATION HAS CHANGED" in errors or "Host key verification failed" in errors:
            return RemoteTrouble(
                Trouble.KEY_CHANGED,
                f"{name} shows another host key than the one pinned when it was added "
                f"({self.host.fingerprint or 'unknown'})",
                "a machine rebuilt under the same address has a new one: compare it with what "
                f"the provider shows, then `fresnel-tui host add {name} {self._destination} "
                "--replace`. If it is the same machine, this may be an attack",
            )
        if "Session open refused" in errors:
            return RemoteTrouble(
                Trouble.ONE_SESSION,
                f"{name} allows one session on a connection, and something uses it",
                f"close the panel that shows {name}, or wait for the copy to end",
            )
        if "Permission denied" in errors or "Too many authentication failures" in errors:
            return RemoteTrouble(
                Trouble.LOGIN,
                f"{name} accepts no login without a prompt: {last}",
                f"`fresnel-tui host connect {name}` logs in at this terminal, with a password or a "
                "second factor",
            )
        return RemoteTrouble(
            Trouble.NOT_REACHED,
            f"{name} is not reached: {last or 'ssh ended without a message'}",
            f"`fresnel-tui host test {name}` tests the connection",
        )

    @property
    def _destination(self) -> str:
        """What `host add` was given: the address with its port, and the options."""
        options = (f"--ssh-option {shlex.quote(option)}" for option in self.host.options)
        return " ".join([address_text(self.host), *options])

    def configuration(self) -> list[tuple[str, str]]:
        """Where ssh's own configuration leads, as `ssh -G` prints it; WrongInput for no address."""
        options = [word for option in self.host.options for word in ("-o", option)]
        options += ["-p", str(self.host.port)] if self.host.port else []
        argv = ["ssh", "-G", *options, "--", self.host.address]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            problem = done.stderr.strip()[:200]
            raise WrongInput(f"ssh does not understand {self.host.address}", problem)
        lines = (line.partition(" ") for line in done.stdout.splitlines())
        return [(name, value) for name, _, value in lines]

    def is_connected(self) -> bool:
        """Whether a shared connection is open."""
        return self._control("check")

    def disconnect(self) -> bool:
        """Close the shared connection; False when there was none."""
        return self._control("exit")

    def _control(self, order: str) -> bool:
        if not self.control_path.exists():
            return False
        argv = [*self.command("use"), "-O", order, "--", self.host.address]
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return done.returncode == 0


def hung_up_before_login(errors: bytes) -> bool:
    """Whether ssh's words say that the server ended the line in the key exchange or before it."""
    return any(sign in errors for sign in _BEFORE_LOGIN)


def quoted(text: str) -> str:
    """`text` as one word for whatever shell reads it there; what no two shells agree on is refused.

    ValueError for a quote, a backslash, an exclamation mark or a line end.
    """
    if any(sign in text for sign in "'\\!\n\0"):
        raise ValueError(f"{text!r} cannot be said to every shell")
    return f"'{text}'"


def _socket_folder() -> Path:
    """A folder of ours alone with a short path; DeniedError when somebody else has taken it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and len(runtime) < 50 and os.access(runtime, os.W_OK):
        folder = Path(runtime) / "fresnel-tui"
    else:
        folder = Path(tempfile.gettempdir()) / f"fresnel-tui-{os.getuid()}"
        if len(str(folder)) > 70:
            folder = Path("/tmp") / folder.name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if found.st_uid != os.getuid() or not private:
        raise DeniedError(f"{folder} is not ours alone", "remove it: ssh's sockets go there")
    return folder


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
