"""What one key does to many marked runs: to each where it can, told once."""

from collections.abc import Callable

from textual.pilot import Pilot
from textual.widgets import OptionList

from runners.places.actions import (
    ChangePriority,
    Outcome,
    PauseRuns,
    RunAction,
    StarRuns,
    StopRuns,
)
from runners.places.here import carry_out
from runners.presets.load import command_spec
from runners.state.codec import read_plan
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import read_run
from tests.command_text import ended_already
from tests.process.conftest import CommandLine
from tests.support import eventually
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.commands import CommandScreen
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane

QUEUED = 6


def priority_of(run: RunDirectory) -> int | None:
    plan = read_plan(run)
    return plan.spec.priority if plan else None


def queue(cli: CommandLine, count: int) -> list[RunDirectory]:
    cli.run("drain", "on")
    return [cli.launch("--gpus", "0", "--name", f"q{n}", "--", "true") for n in range(count)]


async def press_on_all(
    pilot: Pilot[None], runs: list[RunDirectory], key: str, has_worked: Callable[[], bool]
) -> list[tuple[str, str]]:
    """Mark all of them, and press the key; the notices of it."""
    pane = pilot.app.screen.query_one(RunPane)
    await until(pilot, lambda: {run.id for run in runs} <= set(pane.keys))
    pane.focus()
    await pilot.press("home", *("space",) * len(runs))
    assert len(pane.chosen) == len(runs)
    pilot.app.clear_notifications()
    await pilot.press(key)
    await until(pilot, has_worked)
    await until(pilot, lambda: bool(pilot.app._notifications))
    return [(notice.severity, notice.message) for notice in pilot.app._notifications]


async def test_another_priority_of_many_is_told_once(cli: CommandLine) -> None:
    runs = queue(cli, QUEUED)
    cli.run("priority", runs[0].id, "3")
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 40)) as pilot:
        told = await press_on_all(
            pilot,
            runs,
            "plus",
            lambda: [priority_of(run) for run in runs] == [4] + [1] * (QUEUED - 1),
        )
        assert told == [("information", f"{QUEUED} runs: priorities 1 to 4")]
        commands = [line for _, line in app.cockpit.commands.log.lines]
        assert commands == [f"fresnel-tui priority {run.id} --by=1" for run in runs]


async def test_a_pause_of_many_is_told_once_and_leaves_paused_ones_alone(cli: CommandLine) -> None:
    runs = [cli.command("sleep", "300") for _ in range(4)]
    for run in runs:
        eventually(lambda run=run: cli.status(run)["state"] == "running")
    app = PanelApp(StateDirectory())

    def all_are(paused: bool) -> Callable[[], bool]:
        return lambda: all(
            (read_run(cli.state, run.id).pause is not None) is paused for run in runs
        )

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and len(app.snapshot.runs) == 4)
        # Behind the panel's back: what it shows is older.
        cli.run("pause", runs[-1].id)
        told = await press_on_all(pilot, runs, "P", all_are(True))
        text = "3 runs are paused and free nothing"
        assert [text in message for _, message in told].count(True) == 1, told
        assert len(told) <= 2, told
        await until(pilot, lambda: all(row.doing for row in app.screen.query_one(RunPane).chosen))


def test_one_that_is_gone_keeps_no_other_from_it(cli: CommandLine) -> None:
    runs = queue(cli, 2)
    gone = "20260101-000000-gone-0000"
    ids = (gone, *(run.id for run in runs))

    def does(action: RunAction) -> Outcome:
        outcome = carry_out(cli.state, action)
        assert gone in outcome.problem, outcome
        return outcome

    assert does(StarRuns(ids, True)).messages == ()
    assert all(read_run(cli.state, run.id).labels.starred for run in runs)
    assert does(ChangePriority(ids, 2)).messages == ("2 runs: priority 2",)
    assert [priority_of(run) for run in runs] == [2, 2]
    refused = carry_out(cli.state, PauseRuns((runs[0].id,)))
    assert refused.problem and not refused.messages


def test_a_stop_of_one_that_ended_while_it_was_asked_for_is_told(cli: CommandLine) -> None:
    run = cli.launch("--gpus", "0", "--name", "short", "--", "true")
    cli.ended(run)
    outcome = carry_out(cli.state, StopRuns((run.id,), force=True))
    assert outcome.messages == (f"short {ended_already('done')}",)
    assert not run.stop.exists(), "nothing is asked of it any more"


async def test_runs_that_start_together_are_told_together(cli: CommandLine) -> None:
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        specs = [command_spec(["true"], ["gpus=0"], f"part{n}") for n in range(5)]
        started: list[str] = []
        app.cockpit.commands.start(specs, started.append)
        await until(pilot, lambda: bool(started))
        told = [notice.message.splitlines() for notice in app._notifications]
        launched = [lines for lines in told if lines[0].startswith("launched")]
        names = [f"launched part{n}" for n in range(3)]
        assert launched == [[*names, "and 2 more like these"]], told


async def test_what_was_done_in_part_is_noted_so(cli: CommandLine) -> None:
    """In the command log: how many, why not the others, and a script of what was done."""
    runs = [cli.command("sleep", "300") for _ in range(3)]
    for run in runs:
        eventually(lambda run=run: cli.status(run)["state"] == "running")
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and len(app.snapshot.runs) == 3)
        cli.run("pause", runs[-1].id)
        await press_on_all(
            pilot, runs, "P", lambda: all(read_run(cli.state, run.id).pause for run in runs)
        )
        log = app.cockpit.commands.log
        await until(pilot, lambda: bool(log.undone))
        done = " ".join(run.id for run in reversed(runs[:-1]))
        assert log.script.splitlines()[1:] == [f"fresnel-tui pause {done}  # not {runs[-1].id}"]
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, CommandScreen))
        lines = app.screen.query_one(OptionList)
        shown = str(lines.get_option_at_index(0).prompt).splitlines()
        assert "⚠ 2 of 3 done fresnel-tui pause" in shown[0]
        assert "is paused already" in shown[1]


async def test_more_time_is_refused_to_each_by_itself(cli: CommandLine) -> None:
    """What is no job, or has been removed, keeps nothing else from it, and is told of once."""
    runs = [cli.command("sleep", "300") for _ in range(3)]
    for run in runs:
        eventually(lambda run=run: cli.status(run)["state"] == "running")
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and len(app.snapshot.runs) == 3)
        log = app.cockpit.commands.log
        told = await press_on_all(pilot, runs, "plus", lambda: len(log.undone) == len(runs))
        assert [severity for severity, _ in told] == ["error"]
        assert {undone.mark for undone in log.undone.values()} == {"✗ failed"}
        asked = [f"# failed: fresnel-tui extend {run.id} 60m" for run in reversed(runs)]
        assert log.script.splitlines()[1:] == asked


async def test_the_log_is_called_as_its_run_is_now(cli: CommandLine) -> None:
    """Also once that has been given another name while its log is shown."""
    run = cli.launch("--gpus", "0", "--name", "before", "--", "echo", "written")
    cli.ended(run)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 30)) as pilot:
        log = app.cockpit.query_one(LogArea).log_pane
        await until(pilot, lambda: str(log.border_title).startswith("before"))
        cli.run("rename", run.id, "after")
        await until(pilot, lambda: str(log.border_title).startswith("after"))
