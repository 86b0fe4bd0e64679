"""Setting up a rented machine: the panel from here, for its user alone."""

import sys
from collections.abc import Callable

from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine


def test_setup_installs_the_panel_and_starts_the_session(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent()
    line.run("host", "add", "rented", machine.address, *machine.options, "--price", "1.99")
    refused = line.run("list", "--host", "rented", exits=4).stderr
    assert "host setup rented" in refused

    words = ["host", "setup", "rented", "--python", sys.executable, "--budget", "20"]
    done = line.json(*words)
    installed = machine.home / ".local" / "share" / "fresnel-tui"
    assert done["panel"] == str(installed / "bin" / "fresnel-tui")
    assert line.json("session", "--host", "rented")["budget_usd"] == 20
    run = line.run("launch", "--gpus", "0", "--host", "rented", "--wait", "--", "env").stdout
    surroundings = line.run("logs", run.strip(), "--host", "rented").stdout
    assert f"PWD={machine.home}/fresnel" in surroundings
    assert "PYTHONPATH" not in surroundings

    again = line.json(*words)
    assert again["session"] == "goes on"
    assert len(list(installed.glob("source-*"))) == 1

    # The program removes itself too, and the folder that setup made.
    line.run("host", "clean", "rented", "--yes", "--anyway")
    assert not installed.exists() and not machine.state.exists()
    assert not (machine.home / "fresnel").exists()


def test_a_python_that_is_too_old_is_refused(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent()
    old = machine.home / "python3"
    old.write_text('#!/bin/sh\nprintf "fresnel:python=%s\\t3.8.10\\n" "$0"\n')
    old.chmod(0o755)
    line.run("host", "add", "rented", machine.address, *machine.options)
    refused = line.run("host", "setup", "rented", "--python", str(old), exits=2).stderr
    assert "no Python 3.10 or newer" in refused
