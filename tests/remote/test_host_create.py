"""`host create`: a machine rented by own commands is never forgotten, wherever that is broken off."""

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runners.cost.ledger import Ledger
from runners.cost.machines import open_account
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.rental import CreationStage, read_rental
from tests.command_text import ends_it, goes_on
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.remote.test_host_end import meter_of
from tests.support import eventually
from tests.ui.waiting import until
from tui.panel.app import PanelApp


class Provider:
    """Commands that rent a machine, find it and end it, and a log of what they did."""

    def __init__(self, line: CommandLine, machine: RentedMachine) -> None:
        self.folder = line.folder / "provider"
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.log.touch()
        self.machine = machine
        self.creates = f"echo created >>{self.log}; echo id-1234"
        self.finds = f"test -e {self.folder}/ready && echo {machine.address}"
        self.ends = f'echo "ended $(cat "$FRESNEL_REMOTE_OUTPUT")" >>{self.log}'

    def words(self, **changed: str) -> list[str]:
        """`host create`, as somebody types it the first time."""
        creates = changed.get("creates", self.creates)
        commands = ("--create-command", creates, "--address-command", self.finds)
        setup = ("--price", "3600", "--gpus", "2", "--python", sys.executable, "--yes")
        ends = ("--end-command", self.ends)
        return ["host", "create", "rented", *commands, *ends, *setup, *self.machine.options]

    def is_ready(self) -> None:
        """From now on the machine has an address."""
        (self.folder / "ready").touch()

    @property
    def done(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def provider(line: CommandLine, rent: Callable[..., RentedMachine]) -> Provider:
    """A provider whose machine is not there yet."""
    machine = rent()
    machine.stop()
    return Provider(line, machine)


def machine_of(line: CommandLine) -> dict[str, Any]:
    """What `cost` names as the one machine."""
    (found,) = line.json("cost")["machines"]
    assert found["machine"] == "rented"
    return dict(found)


def test_rented_waited_for_set_up_and_ended(line: CommandLine, provider: Provider) -> None:
    registry = RemoteRegistry(line.state)
    child = line.begin(*provider.words())
    eventually(registry.names)
    rental = eventually(lambda: read_rental(registry, "rented"))
    # It is counted from its creation on, for as many GPUs as were named.
    counted = machine_of(line)
    assert counted["usd_per_hour"] == 7200 and counted["at_least"] and counted["usd"] > 0
    for early in (("host", "test", "rented"), ("up", "rented", "example")):
        assert goes_on("rented") in line.run(*early, exits=3).stderr
    provider.is_ready()
    eventually(lambda: registry.find("rented").address)
    provider.machine.start()
    _, problem = child.communicate(timeout=250)
    assert child.returncode == 0, problem.decode()
    session = line.json("session", "--host", "rented")
    began = datetime.fromisoformat(session["session_started"]).timestamp()
    assert began == pytest.approx(rental.began, abs=1.0)
    assert provider.done == ["created"]
    line.run("host", "create", "rented", exits=2)
    ended = line.json("host", "end", "rented", "--yes")
    assert ended["ended"] and ended["spent_usd"] > counted["usd"]
    assert provider.done == ["created", "ended id-1234"]
    ledger = Ledger(line.state)
    ledger.poll()
    (period,) = ledger.sessions("rented")
    assert period.started == pytest.approx(rental.began, abs=1.0) and period.end is not None


def test_killed_while_it_rents(line: CommandLine, provider: Provider) -> None:
    """The command is not run again by itself, and the machine is found by its address."""
    hangs = f"{provider.creates}; exec sleep 600"
    child = line.begin(*provider.words(creates=hangs))
    eventually(lambda: provider.done)
    # Nobody forgets it meanwhile.
    line.run("host", "remove", "rented", "--anyway", exits=4)
    child.send_signal(signal.SIGKILL)
    child.wait()
    end_of(hangs)
    (shown,) = line.json("host", "list")
    assert CreationStage.STARTED.value in shown["creation"]
    assert machine_of(line)["usd"] > 0
    assert ends_it("rented") in line.run("host", "remove", "rented", exits=4).stderr
    line.run("host", "create", "rented", "--within", "0s", exits=3)
    provider.is_ready()
    provider.machine.start()
    line.run("host", "create", "rented")
    assert provider.done == ["created"]
    assert line.json("session", "--host", "rented")["usd_per_hour"] == 7200


def end_of(command: str) -> None:
    """End what a killed creation left running, by its number."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                given = (process / "environ").read_bytes()
                name = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"FRESNEL_REMOTE_NAME=rented" in given and b"sleep\x00600" in name:
                os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.parametrize("at", ["address", "ssh"])
def test_killed_while_it_waits(line: CommandLine, provider: Provider, at: str) -> None:
    registry = RemoteRegistry(line.state)
    if at == "ssh":
        provider.is_ready()
    child = line.begin(*provider.words())
    eventually(lambda: _stage(registry) is CreationStage.DONE)
    if at == "ssh":
        eventually(lambda: registry.find("rented").address)
    child.send_signal(signal.SIGKILL)
    child.wait()
    # Whatever the stage: what was rented can be ended.
    ended = line.json("host", "end", "rented", "--yes")
    assert ended["ended"] and ended["spent_usd"] > 0
    assert provider.done == ["created", "ended id-1234"]
    assert registry.names() == []


def _stage(registry: RemoteRegistry) -> CreationStage | None:
    rental = read_rental(registry, "rented")
    return None if rental is None else rental.stage


def test_a_failed_command_is_told_and_what_it_may_have_rented_is_kept(
    line: CommandLine, provider: Provider
) -> None:
    failed = line.run(*provider.words(creates=f"{provider.creates}; exit 5"), exits=3)
    assert "exit code 5" in failed.stderr and ends_it("rented") in failed.stderr
    assert RemoteRegistry(line.state).names() == ["rented"]
    provider.is_ready()
    provider.machine.start()
    line.run("host", "create", "rented")
    assert provider.done == ["created"]


def test_nothing_is_rented_that_nobody_agreed_to(line: CommandLine, provider: Provider) -> None:
    asked = [word for word in provider.words() if word != "--yes"]
    line.run(*asked, exits=4)
    line.run("host", "create", "rented", exits=3)
    wrong = [word if word != "3600" else "no-such-price" for word in provider.words()]
    line.run(*wrong, exits=2)
    line.run(*provider.words(), "--budget", "much", exits=2)
    line.run(*provider.words(), "--user", "a b", exits=2)
    assert provider.done == [] and RemoteRegistry(line.state).names() == []


def test_what_was_never_there_is_forgotten_with_what_it_was_counted_for(
    line: CommandLine, provider: Provider
) -> None:
    line.run(*provider.words(creates="exit 5"), exits=3)
    assert machine_of(line)["usd"] > 0
    line.run("host", "remove", "rented", exits=4)
    line.run("host", "remove", "rented", "--anyway")
    assert line.json("cost")["machines"] == []


def test_set_up_by_another_command_it_costs_since_its_creation(
    line: CommandLine, provider: Provider
) -> None:
    line.run(*provider.words(), "--budget", "99000", "--within", "0s", exits=3)
    rental = read_rental(RemoteRegistry(line.state), "rented")
    assert rental is not None
    provider.machine.start()
    # Its address command finds nothing: somebody looked it up.
    where = (provider.machine.address, *provider.machine.options)
    line.run("host", "add", "rented", *where, "--replace")
    line.run("host", "setup", "rented", "--python", sys.executable)
    session = line.json("session", "--host", "rented")
    began = datetime.fromisoformat(session["session_started"]).timestamp()
    assert began == pytest.approx(rental.began, abs=1.0)
    assert session["budget_usd"] == 99000


def test_reached_without_a_session_of_its_own_it_goes_on_costing(
    line: CommandLine, provider: Provider
) -> None:
    provider.is_ready()
    provider.machine.start()
    line.run(*provider.words())
    # As where its set-up broke off before its session began.
    line.run("session", "end", "--host", "rented")
    open_account(line.state, "rented", "3600", 2, time.time() - 10)
    for _ in range(2):
        assert machine_of(line)["usd_per_hour"] == 7200


async def test_the_header_counts_a_machine_from_its_creation(
    line: CommandLine, provider: Provider
) -> None:
    line.run(*provider.words(), "--within", "0s", exits=3)
    app = PanelApp(line.state)
    async with app.run_test(size=(200, 30)) as pilot:
        await until(pilot, lambda: "$7,200.00/h" in meter_of(app))
        assert "rented" in meter_of(app)
