"""Two rented machines behind a jump host, in a network of their own: `a`, which talks at every
login and allows one session, and `b`. Their `/etc/hosts` gives both of them wrong addresses.
"""

import os
from pathlib import Path

import msgspec

from runners.remote.registry import RemoteRegistry
from tests.remote.machines import RentedMachine
from tests.remote.network import FarMachine, HomeLine, Network

_WRONG_HOSTS = f"127.0.1.1 NAME {os.uname().nodename}\n10.250.0.1 a\n10.250.0.2 b\n"


class Lab:
    """The machines, added to the panel of the machine `home`, and `home`'s command line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.network = Network("a", "b", hosts=_WRONG_HOSTS)
        self.machines: list[RentedMachine] = []
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def _fill(self) -> None:
        work = self.folder / "work"
        work.mkdir()
        self.line = HomeLine(work, self.network)
        gate = self._machine("gate", "AllowTcpForwarding yes")
        for name, more in (("a", "MaxSessions 1"), ("b", "")):
            machine = self._machine(name, more)
            self.line.run("host", "add", name, machine.address, *machine.through(gate))
            registry = RemoteRegistry(self.line.state)
            host = msgspec.structs.replace(
                registry.find(name),
                command=str(machine.install()),
                folder=str(machine.home / "fresnel"),
                home=str(machine.home),
            )
            registry.save(host)
        talking = "echo welcome to your GPU; printf 'no newline: {\"id\":1}'\n"
        (self.machine("a").home / ".bashrc").write_text(talking)

    def _machine(self, name: str, more: str) -> FarMachine:
        machine = FarMachine(self.network, self.folder / f"machine-{name}", name, more)
        self.machines.append(machine)
        return machine

    def machine(self, name: str) -> RentedMachine:
        """The machine of this name."""
        return next(one for one in self.machines if one.name == name)

    def close(self) -> None:
        """Take the network and everything in it away."""
        for machine in self.machines:
            machine.wire.close()
            machine.stop()
        self.network.close()
