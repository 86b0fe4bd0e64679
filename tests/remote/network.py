"""A network for tests: namespaces joined by cables of their own, each with its own `/etc/hosts`.

Nothing of the machine's own network is touched: whoever tests has a namespace too. Needs root and
`ip`; everything is removed by `close`, also what is left of a test that was killed.
"""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.process.conftest import COMMAND, CommandLine
from tests.remote.machines import RentedMachine, why_not
from tests.remote.users import LabUser, MachineDisk, why_no_users
from tests.support import REPOSITORY

_ETC = Path("/etc/netns")
_numbers = itertools.count(1)

SWITCH = "10.71.2.1"
"""The jump host, seen from the machines behind it."""


def why_no_network() -> str:
    """Why no namespaces can be had here; empty when they can."""
    if why_not():
        return why_not()
    if os.getuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and ip"
    name = f"fresnel{os.getpid()}probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    if made.returncode:
        return f"no network namespaces: {made.stderr.decode().strip()}"
    return why_no_users(REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))


class Network:
    """A person's machine `home`, a jump host `gate`, and machines behind it that only `gate` and
    one another reach.
    """

    def __init__(self, *behind: str, hosts: str = "") -> None:
        """`hosts`: the lines of every machine's `/etc/hosts` behind the gate, `NAME` its name."""
        self._stem = f"fresnel{os.getpid()}n{next(_numbers)}"
        self.names = ("home", "gate", *behind)
        self.addresses = {"home": "10.71.1.2", "gate": "10.71.1.1"}
        self._hosts = hosts
        try:
            self._lay(behind)
        except BaseException:
            self.close()
            raise

    def space(self, name: str) -> str:
        """The namespace of a machine."""
        return f"{self._stem}{name}"

    def etc(self, name: str) -> Path:
        """The files that lie over `/etc` on a machine."""
        return _ETC / self.space(name)

    def inside(self, name: str) -> list[str]:
        """The words before a command that runs on a machine."""
        return ["ip", "netns", "exec", self.space(name)]

    def _lay(self, behind: tuple[str, ...]) -> None:
        for name in self.names:
            folder = self.etc(name)
            folder.mkdir(parents=True)
            words = self._hosts.replace("NAME", name) if name in behind else ""
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{words}")
            _run("ip", "netns", "add", self.space(name))
            self._in(name, "ip", "link", "set", "lo", "up")
        self._cable("home", "eth0", "gate", "eth0")
        self._in("gate", "ip", "addr", "add", "10.71.1.1/24", "dev", "eth0")
        self._in("home", "ip", "addr", "add", "10.71.1.2/24", "dev", "eth0")
        self._in("gate", "ip", "link", "add", "switch", "type", "bridge")
        self._in("gate", "ip", "addr", "add", f"{SWITCH}/24", "dev", "switch")
        self._in("gate", "ip", "link", "set", "switch", "up")
        for i, name in enumerate(behind):
            self._cable(name, "eth0", "gate", f"port{i}")
            self._in("gate", "ip", "link", "set", f"port{i}", "master", "switch")
            self.addresses[name] = f"10.71.2.{i + 10}"
            self._in(name, "ip", "addr", "add", f"{self.addresses[name]}/24", "dev", "eth0")

    def _cable(self, one: str, end: str, other: str, other_end: str) -> None:
        near, far = self.space(one), self.space(other)
        _run(
            *("ip", "link", "add", end, "netns", near, "type", "veth"),
            *("peer", "name", other_end, "netns", far),
        )
        self._in(one, "ip", "link", "set", end, "up")
        self._in(other, "ip", "link", "set", other_end, "up")

    def _in(self, name: str, *words: str) -> None:
        _run(*self.inside(name), *words)

    def shape(self, name: str, delay_ms: int, megabits: int) -> bool:
        """Slow down a machine's cable, both ways; False where the kernel has no netem."""
        words = ("netem", "delay", f"{delay_ms}ms", "rate", f"{megabits}mbit")
        for at, end in ((name, "eth0"), ("gate", "eth0")):
            done = subprocess.run(
                [*self.inside(at), "tc", "qdisc", "add", "dev", end, "root", *words],
                capture_output=True,
                check=False,
            )
            if done.returncode:
                return False
        return True

    def unplug(self, name: str) -> None:
        """Pull a machine's cable."""
        self._in(name, "ip", "link", "set", "eth0", "down")

    def plug(self, name: str) -> None:
        """Put it back."""
        self._in(name, "ip", "link", "set", "eth0", "up")

    def carried(self, name: str) -> int:
        """Bytes that went through a machine's cable so far, both ways."""
        folder = "/sys/class/net/eth0/statistics"
        said = subprocess.run(
            [*self.inside(name), "cat", f"{folder}/rx_bytes", f"{folder}/tx_bytes"],
            capture_output=True,
            check=True,
        )
        return sum(map(int, said.stdout.split()))

    def close(self) -> None:
        """Remove it, its cables go with it; whoever still runs in it is ended."""
        for name in self.names:
            space = self.space(name)
            found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, check=False)
            for pid in map(int, found.stdout.split()):
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
            shutil.rmtree(self.etc(name), ignore_errors=True)
        try:
            _ETC.rmdir()  # ours, if nobody else has one
        except OSError:
            pass


class FarMachine(RentedMachine):
    """A rented machine in a network, seen from its `home`, with a user of its own."""

    def __init__(
        self,
        network: Network,
        folder: Path,
        name: str,
        user: LabUser,
        more: str = "",
        shown: Sequence[Path] = (),
        alter: Callable[[MachineDisk], None] = lambda _: None,
    ) -> None:
        """`shown` is there as it lies here, besides our source and its Python; `alter` changes what
        else its users see.
        """
        self.network = network
        self.user = user
        folder.mkdir(parents=True)
        shown = [REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), *shown]
        (folder / "home").mkdir()
        disk = MachineDisk(folder, folder / "home", user, shown)
        alter(disk)
        super().__init__(folder, name, more, "0.0.0.0", network.space(name), disk)

    @property
    def address(self) -> str:
        """Where it is reached."""
        assert self.user is not None
        return f"{self.user.name}@{self.network.addresses[self.name]}:{self.port}"

    def through(self, gate: "FarMachine") -> list[str]:
        """The words with which `host add` reaches it through `gate`."""
        assert gate.user is not None
        configuration = self.folder / "gate_config"
        known = self.folder / "gate_known_hosts"
        key = (gate.folder / "host_key.pub").read_text().split()[:2]
        known.write_text(f"[{gate.network.addresses['gate']}]:{gate.port} {' '.join(key)}\n")
        configuration.write_text(
            f"Host gate\n  HostName {gate.network.addresses['gate']}\n  Port {gate.port}\n"
            f"  User {gate.user.name}\n  IdentityFile {gate.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known}\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        )
        proxy = f"ProxyCommand=ssh -F {configuration} -W %h:%p gate"
        return [*self.options, "--ssh-option", proxy]


class HomeLine(CommandLine):
    """The command line on the machine `home` of a network."""

    def __init__(self, folder: Path, network: Network) -> None:
        super().__init__(folder)
        self.begins = (*network.inside("home"), *COMMAND)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
