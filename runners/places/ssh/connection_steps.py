"""The way to a machine, step by step, and what is needed there: the first that fails decides."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from runners.doctor.host_facts import DiskRoom
from runners.doctor.resources import judge_room
from runners.model.errors import FresnelError
from runners.places.ssh.connection import AgentConnection, LineLost
from runners.places.ssh.frames import Hello
from runners.places.ssh.host_keys import key_shown_now
from runners.places.ssh.link import offset_text
from runners.places.ssh.panel_source import source_digest
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble

_PORT_WITHIN_S = 10.0
_REACHED = b"fresnel-reached"
# A probe is written, not only asked for: quotas and read-only disks show nothing in df.
_DISK = """\
folder={folder}
[ -d "$folder" ] || folder=$HOME
df -Pk "$folder" | tail -n 1
probe="$folder/.fresnel-tui-probe.$$"
echo probe | cat > "$probe" && rm -f "$probe" && echo writable
rm -f "$probe"
"""

StepName = Literal["name", "port", "key", "login", "shell", "python", "disk", "clock", "version"]


class ConnectionStep(msgspec.Struct, frozen=True):
    """One step: what was found; `remedy` where it is not as it should be, `ok` whether it goes on.

    One that is `ok` and has a remedy is a warning.
    """

    step: StepName
    ok: bool
    text: str
    remedy: str = ""


class _Found(NamedTuple):
    text: str
    remedy: str = ""


class ConnectionTest:
    """One test; `trouble` is why it ended early, `hello` what the agent there said of itself."""

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh
        self.trouble: FresnelError | None = None
        self.hello: Hello | None = None
        self.clock_offset: float | None = None

    def steps(self) -> Iterator[ConnectionStep]:
        """Take the steps, one after the other, until one fails."""
        steps: tuple[tuple[StepName, Callable[[], _Found | None]], ...] = (
            ("name", self._name),
            ("port", self._port),
            ("key", self._key),
            ("login", self._login),
            ("shell", self._shell),
            ("python", self._python),
            ("disk", self._disk),
            ("clock", self._clock),
            ("version", self._version),
        )
        for name, take in steps:
            try:
                found = take()
            except FresnelError as error:
                self.trouble = error
                yield ConnectionStep(name, False, error.message, error.hint)
                return
            if found is not None:
                yield ConnectionStep(name, True, *found)

    def _name(self) -> _Found:
        host = self._ssh.host
        self._options = dict(self._ssh.configuration())
        self._machine = self._options.get("hostname", host.address)
        self._through = next(
            (
                self._options[option]
                for option in ("proxyjump", "proxycommand")
                if self._options.get(option, "none") != "none"
            ),
            "",
        )
        if self._through:
            return _Found(f"{self._machine}, found by the machine on the way: {self._through}")
        try:
            found = socket.getaddrinfo(self._machine, self._number, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RemoteTrouble(
                Trouble.NOT_REACHED,
                f"{host.name} is not reached: {self._machine} has no address: {error.strerror}",
                "look the address up at the provider; "
                f"`fresnel-tui host add {host.name} user@ADDRESS --replace` takes another",
            ) from None
        self._places = list(dict.fromkeys(str(place[4][0]) for place in found))
        return _Found(f"{self._machine} is {', '.join(self._places)}")

    @property
    def _number(self) -> int:
        """The port."""
        text = self._options.get("port", "22")
        return int(text) if text.isdecimal() else 22

    def _port(self) -> _Found | None:
        if self._through:
            return None
        name, problems = self._ssh.host.name, []
        for place in self._places:
            try:
                with socket.create_connection((place, self._number), _PORT_WITHIN_S) as line:
                    line.settimeout(_PORT_WITHIN_S)
                    banner = line.recv(64)
            except TimeoutError:
                problems.append(f"{place} does not answer within {_PORT_WITHIN_S:.0f} s")
                continue
            except OSError as error:
                problems.append(f"{place}: {error.strerror or error}")
                continue
            if banner.startswith(b"SSH-"):
                return _Found(f"{self._number}: an ssh server answers")
            problems.append(f"{place}: what answers is no ssh server")
        raise RemoteTrouble(
            Trouble.NOT_REACHED,
            f"{name} is not reached at port {self._number}: {'; '.join(problems)}",
            "the machine is off or still starting, a firewall is in between, or sshd has another "
            f"port: `fresnel-tui host add {name} {self._ssh.host.address}:PORT --replace`",
        )

    def _key(self) -> _Found | None:
        host = self._ssh.host
        if self._ssh.is_connected():
            return _Found(f"{host.fingerprint}, of the connection that is open")
        shown = key_shown_now(self._ssh.registry, host)
        if shown is None:  # a jump host may show its key only to who can log in
            return None
        if host.fingerprint and shown != host.fingerprint:
            raise self._ssh.trouble(f"fresnel-{host.name}: Host key verification failed")
        return _Found(f"{shown}, as pinned")

    def _login(self) -> _Found:
        began = time.monotonic()
        done = self._ssh.run(f"echo {_REACHED.decode()}")
        self._noise = done.stdout.strip() != _REACHED
        return _Found(f"ok, {(time.monotonic() - began) * 1000:.0f} ms")

    def _shell(self) -> _Found:
        if not self._noise:
            return _Found("says nothing of itself")
        return _Found(
            "it prints something at login: ignored",
            "copies cannot go by rsync: in ~/.bashrc, print only if [ -t 1 ]",
        )

    def _python(self) -> _Found:
        began = time.monotonic()
        try:
            with AgentConnection(self._ssh) as connection:
                connection.begin()
                before = time.time()
                self.hello = connection.ask({"do": "hello"}, Hello)
                self.clock_offset = self.hello.time - (before + time.time()) / 2
        except LineLost as error:
            message = f"{self._ssh.host.name} is not reached: {error}"
            raise RemoteTrouble(Trouble.NOT_REACHED, message, "try again") from None
        took = (time.monotonic() - began) * 1000
        return _Found(f"panel {self.hello.version} on Python {self.hello.python}, {took:.0f} ms")

    def _disk(self) -> _Found:
        name, folder = self._ssh.host.name, self._ssh.host.folder
        quoted = "'" + folder.replace("'", "'\\''") + "'"
        done = self._ssh.run("exec sh -s", _DISK.format(folder=quoted).encode())
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        free = None
        for line in lines:
            with suppress(IndexError, ValueError):
                free = int(line.split()[3]) << 10
        size = "unknown" if free is None else f"{free / 1e9:,.1f} GB"
        remedy = (
            f"`fresnel-tui prune --host {name}` removes old runs, `fresnel-tui host shell {name}` "
            "opens a shell for the rest"
        )
        if "writable" not in lines:
            why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][-200:]
            raise FresnelError(f"{name}: nothing can be written to {folder}: {why}", remedy)
        is_little = free is not None and judge_room(DiskRoom(free))[0] != "PASS"
        return _Found(f"{size} free in {folder or '~'}", remedy if is_little else "")

    def _clock(self) -> _Found:
        text = offset_text(self.clock_offset)
        if not text:
            return _Found("as here")
        return _Found(text, "ages are shown by the clock here; there: timedatectl set-ntp true")

    def _version(self) -> _Found:
        assert self.hello is not None
        if self.hello.installed == source_digest():
            return _Found("the same as here")
        name = self._ssh.host.name
        remedy = f"`fresnel-tui host setup {name}` brings it up to this one"
        return _Found("another than here", remedy)
