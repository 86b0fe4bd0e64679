"""`launch --host any`: on one of several machines, once, or in one queue over all of them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from textual.widgets import Input, OptionList, Static

from runners.cost.all_machines import read_all_budget
from runners.host.locks import is_held
from runners.places.fleet.waiting import (
    WaitingLaunch,
    new_launch,
    open_launches,
    queue_lock,
    read_launches,
    save_launch,
)
from runners.places.ssh.protocol import new_request_name
from runners.places.ssh.registry import RemoteRegistry
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.process.conftest import CommandLine
from tests.remote.conftest import add, end_holder
from tests.remote.machines import RentedMachine
from tests.screen_text import FOR_EXAMPLE
from tests.support import eventually
from tests.ui.waiting import until
from tui.cli.schema import read_schemas, schema_of
from tui.panel.app import PanelApp
from tui.panel.screens.launch import LaunchScreen
from tui.panel.screens.machine_choice import MachineChoiceScreen
from tui.panel.screens.money import MoneyScreen
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane

HOLD = ("--", "sleep", "600")


@pytest.fixture
def fleet(line: CommandLine, rent: Callable[..., RentedMachine]) -> Iterator[dict[str, Path]]:
    """The state folders of machines `a` and `b` with two GPUs each; `b` costs less."""
    machines = {name: rent(name) for name in "ab"}
    for machine in machines.values():
        add(line, machine)
    line.run("host", "label", "a", "dear")
    for name, rate in (("a", "9"), ("b", "2")):
        line.run("session", "start", "--rate", rate, "--host", name)
    yield {name: machine.state for name, machine in machines.items()}
    end_queue(line)


def end_queue(line: CommandLine) -> None:
    """End the process that starts what waits."""
    end_holder(queue_lock(line.state))


def fits(value: object, command: str) -> None:
    jsonschema.validate(value, schema_of(command, read_schemas()))


def _any(line: CommandLine, *flags: str, where: str = "any") -> Any:
    return line.json("launch", "--host", where, *flags, *HOLD)


def _runs(line: CommandLine) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = line.json("list", "--host", "all")
    return found


def test_the_cheapest_that_is_free_runs_it_and_its_plan_says_why(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    first = _any(line, "--gpus", "2")
    assert first["machine"] == "b"
    plan = read_run(StateDirectory(fleet["b"]), first["runs"][0]).plan
    assert plan is not None
    assert any(first["reason"] in note for note in plan.notes)
    assert _any(line, "--gpus", "2")["machine"] == "a"


def test_a_group_keeps_to_its_machines(line: CommandLine, fleet: dict[str, Path]) -> None:
    assert _any(line, where="@dear")["machine"] == "a"
    line.run("launch", "--host", "@nobody", *HOLD, exits=3)


def test_a_sweep_of_a_command_begins_where_some_of_its_runs_can(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    """No machine has GPUs for all three of them."""
    sweep = ("--set", "lr=1..3", "--early-stop", "median")
    line.run("launch", "--host", "any", "--no-queue", *sweep, "--", "echo", "lr={lr}", exits=4)
    launch = line.json("launch", "--host", "any", *sweep, "--", "echo", "lr={lr}")
    assert (launch["machine"], len(launch["runs"])) == ("b", 3)
    line.run("wait", *launch["runs"], "--host", "b")
    assert "lr=3" in line.run("logs", launch["runs"][2], "--host", "b").stdout


def test_a_command_that_a_machine_advises_is_about_that_machine(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    sweep = ("--gpus", "0", "--wait", "--set", "lr=1,2", "--", "echo", "loss {lr}")
    said = line.run("launch", "--host", "a", *sweep).stderr
    (advised,) = re.findall("`fresnel-tui (compare .*?)`", said)
    assert "echo-lr2" in line.run(*advised.split()).stdout


def test_what_no_machine_can_run_is_refused(line: CommandLine, fleet: dict[str, Path]) -> None:
    line.run("launch", "--gpus", "3", "--host", "any", *HOLD, exits=4)
    assert open_launches(line.state) == []


def test_it_waits_in_the_order_of_launch_and_starts_where_something_ends(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    halves = [_any(line, "--gpus", "1") for _ in range(2)]
    _any(line, "--gpus", "2")
    large, small = _any(line, "--gpus", "2", "--name", "large"), _any(line, "--name", "small")
    fits(large, "launch")
    assert large["waits"]
    assert small["waits"]
    waiting = line.json("list", "--host", "any")
    fits(waiting, "list")
    assert [launch["name"] for launch in waiting] == ["large", "small"]
    fits(line.json("plan", "--host", "any", *HOLD, exits=4), "plan")
    line.run("launch", "--no-queue", "--host", "any", *HOLD, exits=4)

    def first() -> WaitingLaunch:
        return open_launches(line.state)[0]

    for half in halves:
        before = first().reason
        line.run("stop", *half["runs"], "--wait", "--host", "b")
        # One GPU is room for the small one, which the large one waits for.
        eventually(lambda before=before: first().reason != before)
    eventually(lambda: [launch.name for launch in open_launches(line.state)] == ["small"])
    started = {launch.name: launch.machine for launch in read_launches(line.state)}
    assert started["large"] == "b"
    cancelled = line.json("cancel", "--all", "--host", "any")
    fits(cancelled, "cancel")
    assert [(launch["name"], launch["waits"]) for launch in cancelled] == [("small", False)]
    assert line.json("list", "--host", "any") == []


def test_a_higher_priority_goes_first_among_those_that_wait(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    (_, held) = [_any(line, "--gpus", "2") for _ in range(2)]
    for name, flags in (("low", ()), ("high", ("--priority", "3")), ("top", ("--priority=7",))):
        assert _any(line, "--gpus", "2", "--name", name, *flags)["waits"]
    waiting = line.json("list", "--host", "any")
    assert [launch["name"] for launch in waiting] == ["top", "high", "low"]
    line.run("stop", *held["runs"], "--wait", "--host", held["machine"])
    eventually(lambda: len(open_launches(line.state)) == 2)
    assert [launch.name for launch in open_launches(line.state)] == ["high", "low"]
    line.run("cancel", "--all", "--host", "any")


def test_a_queue_that_is_killed_while_it_starts_one_starts_it_once(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    child = line.begin("launch", "--host", "any", "--name", "once", *HOLD)
    # As soon as a machine was chosen, before anything is known of what it did.
    eventually(
        lambda: any(one.asked for one in open_launches(line.state)) or child.poll() is not None
    )
    end_queue(line)
    assert child.wait() == 0
    assert open_launches(line.state) == []
    runs = _runs(line)
    assert [run["name"] for name in fleet for run in runs[name]] == ["once"]


def test_a_machine_that_breaks_off_while_it_is_asked_keeps_the_launch(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    machine = rent("a")
    add(line, machine)
    try:
        assert _any(line)["machine"] == "a"
        machine.wire.is_open = False
        machine.wire.cut()
        lost = line.begin("launch", "--host", "any", "--name", "later", *HOLD)
        eventually(lambda: any(launch.looked for launch in open_launches(line.state)))
        lost.wait()
        machine.wire.is_open = True
        eventually(lambda: not open_launches(line.state))
        assert len(_runs(line)["a"]) == 2
    finally:
        end_queue(line)


def test_a_launch_that_a_lost_machine_was_asked_for_is_cancelled_as_far_as_is_known(
    line: CommandLine, rent: Callable[..., RentedMachine]
) -> None:
    """Whether it began there is said to be open, then settled: by the machine, or without it."""
    machine = rent("a")
    add(line, machine)
    machine.wire.is_open = False
    machine.wire.cut()
    try:
        for name in ("settled", "given-up"):
            launch = new_launch(("launch", "--name", name, *HOLD), "any", True, {})
            asked = msgspec.structs.replace(launch, asked="a", request=new_request_name())
            save_launch(line.state, asked)
        cancelled = line.json("cancel", "--all", "--host", "any", exits=4)
        assert [(launch["waits"], launch["machine"]) for launch in cancelled] == [(True, None)] * 2
        assert all(launch["reason"] for launch in cancelled)
        again = line.run("cancel", launch.id, "--host", "any", exits=4)
        assert "host remove a" in again.stderr
        end_queue(line)
        (line.state.remote / ".waiting" / f"{launch.id}.json").rename(line.folder / "kept")
        machine.wire.is_open = True
        line.run("cancel", "--all", "--host", "any")
        eventually(lambda: not is_held(queue_lock(line.state)))
        assert _runs(line)["a"] == []
        (line.folder / "kept").rename(line.state.remote / ".waiting" / f"{launch.id}.json")
        RemoteRegistry(line.state).forget("a")
        (gone,) = line.json("cancel", launch.id, "--host", "any")
        assert "a was removed" in gone["reason"]
    finally:
        end_queue(line)


def test_two_clients_at_once_give_no_gpu_twice(
    line: CommandLine, fleet: dict[str, Path], tmp_path: Path
) -> None:
    other = {"FRESNEL_STATE_DIR": str(tmp_path / "other")}
    subprocess.run(["cp", "-a", line.state.root, tmp_path / "other"], check=True)
    clients: list[dict[str, str]] = [{}, other]
    began = [
        line.begin("launch", "--json", "--host", "any", *HOLD, **client)
        for client in clients
        for _ in range(3)
    ]
    for child in began:
        child.wait()

    def held() -> list[tuple[str, int]]:
        runs = _runs(line)
        return [(name, gpu) for name in fleet for run in runs[name] for gpu in run["gpus"]]

    # Of two that ask for the last GPU one is refused: its queue asks again.
    eventually(lambda: len(held()) >= 4, what="all GPUs in use")
    assert len(held()) == len(set(held())) == 4
    for client in clients:
        line.run("cancel", "--all", "--host", "any", **client)


def test_a_variable_reaches_the_program_and_is_kept_in_no_file(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    word = "word-for-the-program"
    show = ("--", "sh", "-c", "echo got $KEY")
    for given, variables in ((f"KEY={word}", {}), ("KEY", {"KEY": word})):
        begun = line.run("launch", "--json", "--host", "any", "--env", given, *show, **variables)
        launch = json.loads(begun.stdout)
        where = ("--host", launch["machine"])
        line.run("wait", *launch["runs"], *where)
        assert f"got {word}" in line.run("logs", *launch["runs"], *where).stdout
    assert not any(word in path.read_text() for path in queue_lock(line.state).parent.glob("*"))


async def test_the_launch_form_lists_machines_and_launches_on_any(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    line.run("launch", "--host", "a", "--gpus", "0", *HOLD)
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(130, 34)) as pilot:
        runs = app.cockpit.query_one(RunPane)
        await until(pilot, lambda: runs.selected_row is not None)
        hosts = app.cockpit.remote.open().links.hosts
        await until(pilot, lambda: all(hosts[name].is_reached for name in fleet))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and app.screen.is_mounted)
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        await until(pilot, lambda: len(screen.presets._choices) > 1)
        screen.query_one("#filter", Input).value = "sleep 600"
        await pilot.press("enter")
        await pilot.press("f8")
        await until(pilot, lambda: isinstance(app.screen, MachineChoiceScreen))
        listed = app.screen.query_one(OptionList)
        assert [each.name for each in screen.planners] == ["", "any", "@dear", "a", "b"]
        assert listed.option_count == len(screen.planners)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen is screen)
        plan = screen.query_one("#planned", Static)
        await until(pilot, lambda: "sleep" in str(plan.content) and screen.planner.name == "any")
        outcome = screen.query_one("#outcome", Static)
        assert re.search(FOR_EXAMPLE, str(outcome.content))
        assert "machine " in str(plan.content)
        assert "on b" in str(outcome.content), "not the one with most GPUs: the cheapest"
        await pilot.press("f2")
        await until(pilot, lambda: any(launch.machine for launch in read_launches(line.state)))
        await until(pilot, lambda: (row := runs.selected_row) is not None and row.machine == "b")
    assert [launch.machine for launch in read_launches(line.state)] == ["b"]
    assert "--host any" in app.runs.log.script


def test_a_budget_over_all_machines_refuses_launches_when_it_is_spent(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    set_now = line.json("host", "budget", "500")
    assert set_now["left_usd"] == pytest.approx(500, abs=1)
    costs = line.json("cost")
    assert costs["all_budget_usd"] == 500
    assert costs["all_budget_left_usd"] <= set_now["left_usd"]
    line.run("host", "budget", "much", exits=2)
    # As after a month, without waiting for it.
    budget = read_all_budget(line.state)
    assert budget is not None
    spent = msgspec.structs.replace(budget, before=str(Fraction(budget.before) - 501))
    line.state.all_budget.write_bytes(msgspec.json.encode(spent))
    for where in ("a", "any"):
        line.run("launch", "--host", where, *HOLD, exits=4)
    line.run("launch", "--hosts", "a,b", "--gpus", "0", *HOLD, exits=4)
    line.run("host", "budget", "none")
    assert _any(line)["machine"] == "b"


async def test_the_panel_shows_the_budget_over_all_machines(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    """In its header, with a mark when little is left and when none is, and on the page of money."""
    line.run("host", "budget", "500")
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(160, 34)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        meter = app.cockpit.query_one(MeterBar)
        await until(pilot, lambda: "$" in meter.all_budget)
        assert meter.all_budget in str(meter.render())
        assert not meter.all_budget.startswith("⚠")
        budget = read_all_budget(line.state)
        assert budget is not None
        for spent, has_rest in ((451, True), (501, False)):  # as after a month, without waiting
            # What the machines have cost before the budget began is not of it.
            now = msgspec.structs.replace(budget, before=str(Fraction(budget.before) - spent))
            line.state.all_budget.write_bytes(msgspec.json.encode(now))
            await until(
                pilot,
                lambda has_rest=has_rest: (
                    meter.all_budget.startswith("⚠") and ("$" in meter.all_budget) == has_rest
                ),
            )
            await until(pilot, lambda: meter.all_budget in str(meter.render()))
        app.cockpit.place_pages.money()
        await until(pilot, lambda: isinstance(app.screen, MoneyScreen) and app.screen.is_mounted)

        def notes() -> list[str]:
            return [str(part.content) for part in app.screen.query(Static)]

        await until(pilot, lambda: any("$500.00" in text for text in notes()))


def test_the_folder_of_a_command_goes_to_the_machine_that_was_chosen(
    line: CommandLine, fleet: dict[str, Path]
) -> None:
    program = line.folder / "program"
    program.mkdir()
    (program / "show.py").write_text("print('pushed'); open('made.txt', 'w').write('there')\n")
    command = ("--", "python3", "show.py")
    launch = json.loads(
        line.run("launch", "--json", "--host", "any", *command, folder=program).stdout
    )
    where = ("--host", launch["machine"])
    line.run("wait", *launch["runs"], *where)
    assert "pushed" in line.run("logs", *launch["runs"], *where).stdout

    # Waited for, its results come back as from a machine that is named.
    line.run("launch", "--host", "any", "--wait", "--no-fetch", *command, folder=program)
    assert not (program / "fetched").exists()
    for flag in ("--wait", "--follow"):
        line.run("launch", "--host", "any", flag, *command, folder=program)
        (brought,) = (program / "fetched").rglob("made.txt")
        assert brought.read_text() == "there"
        shutil.rmtree(program / "fetched")
