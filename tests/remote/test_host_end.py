"""The end of a rented machine: its meter stops after the command that ended it, and not before."""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from runners.cost.ledger import Ledger
from runners.places.ssh.registry import RemoteRegistry
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.support import account_of, eventually
from tests.terminal import Terminal
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.widgets.meter import MeterBar

THERE = ("--host", "rented")
END = ("host", "end", "rented")
FAILS = ("--yes", "--end-command", "exit 3")


def rent_by_the_hour(line: CommandLine) -> None:
    """A session there at a dollar a second, with a budget and a guard on it."""
    line.run("session", "start", "--rate", "3600", "--since", "now", "--budget", "100000", *THERE)


def session_there(line: CommandLine) -> dict[str, Any]:
    """The session of the machine, by its own word."""
    found: dict[str, Any] = json.loads(line.run("session", "status", "--json", *THERE).stdout)
    return found


@pytest.mark.parametrize(
    ("flags", "exits"),
    [(FAILS, 1), (("--end-command", "true"), 4), ((), 0)],
    ids=["the command fails", "nobody said yes", "no command"],
)
def test_a_machine_that_was_not_ended_is_counted_on(
    line: CommandLine, rented: RentedMachine, flags: Sequence[str], exits: int
) -> None:
    rent_by_the_hour(line)
    line.run("guard", "set", "--budget-stop", "95%", *THERE)
    began = session_there(line)["session_started"]
    line.run(*END, *flags, exits=exits)
    session = session_there(line)
    assert session["session_started"] == began and session["usd_per_hour"] == 3600
    guard = json.loads(line.run("guard", "--json", *THERE).stdout)
    assert guard["problems"] == []
    assert RemoteRegistry(line.state).names() == ["rented"]


def test_no_at_the_question_leaves_the_session_open(
    line: CommandLine, rented: RentedMachine
) -> None:
    rent_by_the_hour(line)
    gone = line.folder / "gone"
    terminal = Terminal([*line.begins, *END, "--end-command", f"touch {gone}"])
    try:
        terminal.wait_for(r"\[y/N\]")
        terminal.press("n", "Enter")
        terminal.wait_end()
    finally:
        terminal.close()
    assert session_there(line)["usd_per_hour"] == 3600
    assert not gone.exists()


def test_the_total_covers_the_tries_that_failed(line: CommandLine, rented: RentedMachine) -> None:
    rent_by_the_hour(line)
    line.run(*END, *FAILS, exits=1)
    before = session_there(line)["session_usd"]
    line.run(*END, *FAILS, exits=1)
    between = session_there(line)["session_usd"]
    ended = line.json(*END, "--yes", "--end-command", "true")
    assert ended["ended"] and ended["spent_usd"] > between > before > 0
    ledger = Ledger(line.state)
    ledger.poll()
    (session,) = ledger.sessions("rented")
    assert session.end is not None
    assert float(account_of(session, session.end).total) == pytest.approx(
        ended["spent_usd"], abs=1e-4
    )


def test_what_is_ended_anyway_leaves_its_ledger_and_is_named(
    line: CommandLine, rented: RentedMachine
) -> None:
    rent_by_the_hour(line)
    done = line.run("launch", "--gpus", "1", "--wait", *THERE, "--", "sleep", "0.2").stdout.strip()
    live = line.run("launch", "--gpus", "1", *THERE, "--", "sleep", "600").stdout.strip()

    def is_running() -> bool:
        rows = json.loads(line.run("list", "--json", *THERE).stdout)
        return any(row["id"] == live and row["state"] == "running" for row in rows)

    eventually(is_running)
    refused = line.run(*END, "--yes", "--end-command", "true", exits=4).stderr
    assert live in refused
    ended = line.run(*END, "--yes", "--anyway", "--end-command", "true").stderr
    assert done in ended and live in ended
    ledger = Ledger(line.state)
    ledger.poll()
    assert {run: entry.host for run, entry in ledger.runs.items()} == dict.fromkeys(
        (done, live), "rented"
    )
    assert all(entry.finished is not None for entry in ledger.runs.values())
    (session,) = ledger.sessions("rented")
    assert session.end is not None


def machines(line: CommandLine) -> dict[str, dict[str, Any]]:
    """The machines that `cost` names."""
    return {machine["machine"]: machine for machine in line.json("cost")["machines"]}


def test_the_money_of_a_machine_is_said_here_while_it_is_reached_and_after(
    line: CommandLine, rented: RentedMachine
) -> None:
    rent_by_the_hour(line)
    run = line.run("launch", "--gpus", "1", "--wait", *THERE, "--", "sleep", "0.2").stdout.strip()
    reached = machines(line)["rented"]
    assert reached["state"] == "reached" and reached["usd_per_hour"] == 3600
    assert 0 < reached["usd"] <= session_there(line)["session_usd"]
    rented.stop()
    rented.wire.cut()
    missed = machines(line)["rented"]
    assert missed["state"] == "not reached" and missed["at_least"]
    assert missed["usd"] > reached["usd"], "it goes on"
    rented.start()
    ended = line.json(*END, "--yes", "--anyway", "--end-command", "true")
    gone = machines(line)["rented"]
    assert gone["state"] == "ended" and not gone["at_least"]
    assert gone["usd"] == pytest.approx(ended["spent_usd"], abs=1e-6)
    assert run in gone["runs"]
    exported = {row["id"]: row for row in line.json("cost", "export")}
    assert exported[run]["host"] == "rented"
    assert machines(line)["rented"] == gone, "nothing is counted any more"


def test_one_machine_under_two_names_is_counted_once(
    line: CommandLine, rented: RentedMachine
) -> None:
    registry = RemoteRegistry(line.state)
    line.run("host", "add", "again", rented.address, *rented.options)
    host = registry.find("rented")
    registry.save(
        msgspec.structs.replace(
            registry.find("again"), command=host.command, folder=host.folder, home=host.home
        )
    )
    rent_by_the_hour(line)
    found = line.json("cost")
    first, second = found["machines"]
    assert (first["machine"], second["machine"]) == ("rented", "again")
    assert second["same_as"] == "rented"
    assert found["all_usd_per_hour"] == 3600
    assert found["all_usd"] == pytest.approx(first["usd"], abs=1e-5)
    assert {row["host"] for row in line.json("cost", "export")} == {"rented"}


async def test_the_header_counts_on_while_a_machine_is_not_reached(
    line: CommandLine, rented: RentedMachine
) -> None:
    rent_by_the_hour(line)

    def spent(app: PanelApp) -> float:
        found = re.search(r"at least \$([\d,.]+) by now", meter_of(app))
        return float(found[1].replace(",", "")) if found else 0.0

    app = PanelApp(line.state)
    async with app.run_test(size=(200, 30)) as pilot:
        await until(pilot, lambda: "rented $3,600.00/h $" in meter_of(app))
        await until(pilot, lambda: (line.state.remote / "rented" / "account.json").exists())
        rented.wire.close()
        await until(pilot, lambda: spent(app) > 0)
        first = spent(app)
        await until(pilot, lambda: spent(app) > first)
        assert "rented $3,600.00/h, not reached since" in meter_of(app)
    # One that is opened now knows it too.
    app = PanelApp(line.state)
    async with app.run_test(size=(200, 30)) as pilot:
        await until(pilot, lambda: spent(app) > first)


def meter_of(app: PanelApp) -> str:
    """What the header says of other machines, in full."""
    return app.cockpit.query_one(MeterBar).remote[0] if app.is_mounted else ""
