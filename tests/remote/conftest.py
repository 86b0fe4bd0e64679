"""A rented machine per test, added to the panel's state folder, and ended with all on it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from runners.host.locks import is_held
from runners.places.ssh.host_keys import fingerprint
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine, end_everything
from tests.remote.machines import RentedMachine, why_not
from tests.support import eventually
from tests.warm import COMMANDS


@pytest.fixture
def line(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line here, as its own user has it."""
    folder = tmp_path / "work"
    folder.mkdir()
    found = CommandLine(folder)
    yield found
    put_away(found)


def end_holder(lock: Path) -> None:
    """Kill who holds a lock, if somebody does; it may leave by itself meanwhile."""
    if is_held(lock):
        # It writes its number down at once.
        eventually(lambda: lock.read_text() or not is_held(lock), what="who holds a lock")
        if is_held(lock):
            with suppress(ProcessLookupError):
                os.kill(int(lock.read_text()), signal.SIGKILL)
        eventually(lambda: not is_held(lock), what=f"{lock.name} free")


def put_away(line: CommandLine) -> None:
    """End what a person's machine still does: commands, watchers of launches, shared lines."""
    for child in line.children:
        if child.poll() is None:
            child.kill()
        child.communicate()
    for lock in line.state.remote.glob(".[fg]*/*.lock"):  # of fetches and groups
        end_holder(lock)
    registry = RemoteRegistry(line.state)
    for host in registry.all():
        Ssh(registry, host).disconnect()


@pytest.fixture
def rent(
    tmp_path: Path, line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RentedMachine]]:
    """Rent machines: `rent(name, more sshd configuration)`. Skips where no sshd can be had."""
    if why_not():
        pytest.skip(why_not())
    machines: list[RentedMachine] = []

    def one(name: str = "rented", more: str = "") -> RentedMachine:
        machine = RentedMachine(tmp_path / f"machine-{name}", name, more)
        machines.append(machine)
        return machine

    yield one
    for machine in machines:
        machine.wire.close()
        machine.stop()
        end_everything(StateDirectory(machine.state))


@pytest.fixture
def rented(rent: Callable[..., RentedMachine], line: CommandLine) -> RentedMachine:
    """A machine that was added and set up, called `rented`."""
    machine = rent()
    add(line, machine)
    return machine


def add(line: CommandLine, machine: RentedMachine) -> RemoteHost:
    """What `host add` and `host setup` would leave; both are tested where they are the matter."""
    registry = RemoteRegistry(line.state.create())
    known = registry.known_hosts(machine.name)
    known.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind, key, *_ = (machine.folder / "host_key.pub").read_text().split()
    known.write_text(f"fresnel-{machine.name} {kind} {key}\n")
    address, _, port = machine.address.rpartition(":")
    host = RemoteHost(
        machine.name,
        address,
        int(port),
        options=tuple(machine.options[1::2]),
        fingerprint=fingerprint(known),
        added=time.time(),
        command=str(machine.install(COMMANDS)),
        folder=str(machine.home / "fresnel"),
        home=str(machine.home),
        has_rsync=os.access("/usr/bin/rsync", os.X_OK),
    )
    registry.save(host)
    return host


@pytest.fixture(params=["rsync", "stream"])
def way(request: pytest.FixtureRequest, line: CommandLine, rented: RentedMachine) -> str:
    """Both ways to copy, one after the other."""
    if request.param == "stream":
        registry = RemoteRegistry(line.state)
        registry.save(msgspec.structs.replace(registry.find("rented"), has_rsync=False))
    return str(request.param)
