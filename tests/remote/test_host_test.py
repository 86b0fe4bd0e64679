"""`host test` on real machines with one fault each: which step says so, and what it advises."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from runners.places.ssh.registry import RemoteRegistry
from tests.process.conftest import CommandLine
from tests.remote.conftest import add
from tests.remote.machines import RentedMachine
from tests.support import deaf_port


def steps_of(line: CommandLine, exits: int = 4) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What the test says, and its steps by name."""
    done = line.run("host", "test", "rented", "--json", exits=exits)
    found = json.loads(done.stdout)
    return found, {step["step"]: step for step in found["steps"]}


def alter(line: CommandLine, **fields: Any) -> None:
    """Change what is known of the machine."""
    registry = RemoteRegistry(line.state)
    registry.save(msgspec.structs.replace(registry.find("rented"), **fields))


def test_a_machine_without_a_fault_passes_every_step(
    line: CommandLine, rented: RentedMachine
) -> None:
    (rented.home / "fresnel").mkdir()
    found, steps = steps_of(line, exits=0)
    assert found["ok"] and all(step["ok"] for step in steps.values())
    assert list(steps) == [
        "name",
        "port",
        "key",
        "login",
        "shell",
        "python",
        "disk",
        "clock",
        "version",
    ]
    # How much is free is the tests' machine's affair, and nothing was installed by `host setup`.
    warned = {step["step"] for step in steps.values() if step["remedy"]}
    assert warned <= {"disk", "version"}


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"address": "root@no-such-machine.invalid"}, "--replace"),
    "port": ({}, "--replace"),
    "login": ({"options": ("IdentityFile=/dev/null", "IdentitiesOnly=yes")}, "host connect"),
    "python": ({"command": "/nowhere/fresnel-tui"}, "host setup"),
    "disk": ({"folder": "/proc"}, "prune"),
}


@pytest.mark.parametrize("step", FAULTS)
def test_the_step_that_fails_is_named_with_its_remedy(
    line: CommandLine, rented: RentedMachine, step: str
) -> None:
    fields, remedy = FAULTS[step]
    with deaf_port() as port:
        alter(line, **({"port": port} if step == "port" else fields))
        found, steps = steps_of(line, exits=1 if step == "disk" else 4)
    assert not found["ok"] and list(steps)[-1] == step and not steps[step]["ok"]
    assert remedy in steps[step]["remedy"]
    assert all(other["ok"] for name, other in steps.items() if name != step)


def test_another_key_is_found_before_the_login(line: CommandLine, rented: RentedMachine) -> None:
    rented.new_host_key()
    _, steps = steps_of(line)
    assert list(steps)[-1] == "key" and f"rented {rented.address}" in steps["key"]["remedy"]


def test_a_shell_that_talks_is_a_warning(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent()
    machine.write(".bashrc", "echo welcome\n")
    add(line, machine)
    found, steps = steps_of(line, exits=0)
    assert found["ok"] and "welcome" not in steps["shell"]["text"] and steps["shell"]["remedy"]
