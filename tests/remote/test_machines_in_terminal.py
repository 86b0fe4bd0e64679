"""What `H` does in the terminal, in which somebody may have to type: add, set up, log in, end; and
what `w` fetches. A real panel, its real commands, a real sshd.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.ssh import Ssh
from tests.command_text import FORGOTTEN, NOT_FETCHED_FROM
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.support import eventually
from tests.terminal import Terminal, panel_command

MACHINES = "Rented machines"
BACK = "Enter: back to the panel"
SETUP_S = 240.0
"""An environment is made and filled there."""


@pytest.fixture
def panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Terminal]]:
    opened: list[Terminal] = []
    monkeypatch.chdir(tmp_path / "work")

    def open_it() -> Terminal:
        opened.append(Terminal(panel_command(), 150, 36))
        opened[-1].wait_for("Runs")
        return opened[-1]

    yield open_it
    for terminal in opened:
        terminal.close()


def machines(panel: Terminal, pattern: str) -> None:
    """Open the list of machines, and wait for what it says."""
    panel.press("H")
    panel.wait_for(MACHINES)
    panel.wait_for(pattern)


def return_to(panel: Terminal) -> None:
    """Back from the command to the panel."""
    panel.wait_for(BACK)
    panel.press("Enter")
    panel.wait_for("╭─ .*Runs")


def test_a_machine_is_added_and_set_up(
    line: CommandLine, rent: Callable[..., RentedMachine], panel: Callable[[], Terminal]
) -> None:
    machine = rent()
    shown = panel()
    machines(shown, "no rented machine yet")
    shown.press("a")
    shown.wait_for("Add a machine")
    shown.press(" ".join(("rented", machine.address, *machine.options)), "Enter")
    shown.wait_for("pinned")
    return_to(shown)

    registry = RemoteRegistry(line.state)
    host = registry.find("rented")
    # It has what the panel needs: nothing is downloaded.
    registry.save(msgspec.structs.replace(host, python=sys.executable))
    machines(shown, "rented .*not set up")
    shown.press("u")
    shown.wait_for("next: fresnel-tui push", SETUP_S)
    return_to(shown)
    machines(shown, "rented .*reached since")
    assert registry.find("rented").command


def test_a_person_logs_in_and_the_line_stays(
    line: CommandLine, rented: RentedMachine, panel: Callable[[], Terminal]
) -> None:
    registry = RemoteRegistry(line.state)
    shown = panel()
    machines(shown, "rented .*reached since")
    shown.press("c")
    shown.wait_for("rented is connected")
    return_to(shown)
    assert Ssh(registry, registry.find("rented")).is_connected()
    shown.press("q")
    shown.wait_end()
    assert Ssh(registry, registry.find("rented")).is_connected(), "the line outlives the panel"


def test_a_machine_is_ended_once_its_results_were_fetched(
    line: CommandLine, rented: RentedMachine, panel: Callable[[], Terminal]
) -> None:
    registry = RemoteRegistry(line.state)
    destroyed = rented.folder / "destroyed"
    host = registry.find("rented")
    registry.save(msgspec.structs.replace(host, end_command=f"touch {destroyed}"))
    words = ("--gpus", "0", "--name", "trained", "--wait", "--host", "rented", "--")
    run = line.run("launch", *words, "sh", "-c", "echo loss 0.5").stdout.strip()
    shown = panel()
    shown.wait_for("trained")

    machines(shown, "rented .*reached since")
    shown.press("e")
    shown.wait_for(f"{NOT_FETCHED_FROM} rented: {run}")
    return_to(shown)
    assert not destroyed.exists()

    shown.press("w")
    fetched = line.folder / "fetched"
    eventually(lambda: list(fetched.rglob("output.log")), what="its log here")
    eventually(lambda: _unfetched(line) == [], what="the mark there")

    machines(shown, "rented .*reached since")
    shown.press("e")
    shown.wait_for(f"run .*touch|touch .*{destroyed.name}")
    shown.press("yes", "Enter")
    shown.wait_for(FORGOTTEN)
    return_to(shown)
    assert destroyed.exists()
    assert registry.all() == []


def _unfetched(line: CommandLine) -> list[str]:
    found: list[str] = json.loads(line.run("fetched", "--json", "--host", "rented").stdout)[
        "unfetched"
    ]
    return found
