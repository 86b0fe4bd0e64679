"""A rented machine per test, added to the panel's state folder, and ended with all on it."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from runners.host.locks import is_held
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.control.wait import wait_until_ended
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run
from tests.process.conftest import CommandLine
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
        state = StateDirectory(machine.state)
        with monkeypatch.context() as there:
            there.setenv("FRESNEL_HOST", machine.name)
            for run_id in live_run_ids(state):
                request_stop(state, read_run(state, run_id), force=True)
                wait_until_ended(state, run_id)


@pytest.fixture
def rented(rent: Callable[..., RentedMachine], line: CommandLine) -> RentedMachine:
    """A machine that was added and set up, called `rented`."""
    machine = rent()
    add(line, machine)
    return machine


def add(line: CommandLine, machine: RentedMachine) -> RemoteHost:
    """`host add`, and what `host setup` would leave."""
    line.run("host", "add", machine.name, machine.address, *machine.options)
    registry = RemoteRegistry(line.state)
    host = msgspec.structs.replace(
        registry.find(machine.name),
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
