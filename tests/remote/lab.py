"""Rented machines behind a jump host, in a network of their own, each with a user of its own: `a`,
which talks at every login and allows one session, `b`, and `old`, which has no Python but 3.10.
Their `/etc/hosts` gives all of them wrong addresses.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from tests.remote.conftest import put_away
from tests.remote.network import FarMachine, HomeLine, Network
from tests.remote.users import MachineDisk, make_user

_WRONG_HOSTS = f"127.0.1.1 NAME {os.uname().nodename}\n10.250.0.1 a\n10.250.0.2 b\n"
_TALKING = "echo welcome to your GPU; printf 'no newline: {\"id\":1}'\n"
USERS = {"gate": "warden", "a": "anna", "b": "ben", "old": "olga"}


class Lab:
    """The machines, and the command line of the machine `home`."""

    def __init__(self, folder: Path, user: str = "") -> None:
        """`user`: who logs in everywhere, with one number, as it is where disks are shared; else
        each machine has a user of its own.
        """
        folder.mkdir(exist_ok=True)
        self._user = user
        self.shared = folder / "shared"
        """A folder that all machines see, and everybody may write to."""
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self._folder = folder
        self.network = Network("a", "b", "old", hosts=_WRONG_HOSTS)
        self.machines: list[FarMachine] = []
        try:
            work = folder / "work"
            work.mkdir()
            self.line = HomeLine(work, self.network)
            self._gate = self._machine("gate", "AllowTcpForwarding yes")
        except BaseException:
            self.close()
            raise

    def add(
        self,
        name: str,
        more: str = "",
        shown: Sequence[Path] = (),
        alter: Callable[[MachineDisk], None] = lambda _: None,
        shell: str = "/bin/bash",
    ) -> FarMachine:
        """Start a machine, and `host add` it. `shell` is its user's login shell."""
        machine = self._machine(name, more, shown, alter, shell)
        if name == "a":
            machine.write(".bashrc", _TALKING)
        self.line.run("host", "add", name, machine.address, *machine.through(self._gate))
        return machine

    def set_up(
        self,
        name: str,
        more: str = "",
        alter: Callable[[MachineDisk], None] = lambda _: None,
        shell: str = "/bin/bash",
    ) -> RemoteHost:
        """A machine that was added, with what `host setup` would leave."""
        machine = self.add(name, "MaxSessions 1" if name == "a" else more, (), alter, shell)
        registry = RemoteRegistry(self.line.state)
        host = msgspec.structs.replace(
            registry.find(name),
            command=str(machine.install()),
            folder=str(machine.there / "fresnel"),
            home=str(machine.there),
        )
        registry.save(host)
        return host

    def _machine(
        self,
        name: str,
        more: str,
        shown: Sequence[Path] = (),
        alter: Callable[[MachineDisk], None] = lambda _: None,
        shell: str = "/bin/bash",
    ) -> FarMachine:
        folder = self._folder / f"machine-{name}"
        shown = [self.shared, *shown]
        user = self._user or USERS[name]
        number = 0 if self._user else self.network.names.index(name)
        made = make_user(user, number, self.network.etc(name), shell)
        machine = FarMachine(self.network, folder, name, made, more, shown, alter)
        self.machines.append(machine)
        return machine

    def machine(self, name: str) -> FarMachine:
        """The machine of this name."""
        return next(one for one in self.machines if one.name == name)

    def close(self) -> None:
        """Take the network and everything in it away."""
        if hasattr(self, "line"):
            put_away(self.line)
        for machine in self.machines:
            machine.wire.close()
            machine.stop()
        self.network.close()
