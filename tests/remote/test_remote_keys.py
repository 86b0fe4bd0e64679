"""The keys of the run table on a rented machine's run: the same dialogs, done there."""

import json
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from runners.model.health import Condition
from runners.model.states import State
from runners.places.actions import PauseRuns
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.remote.test_cockpit_hosts import back, press
from tests.screen_text import GPUS_FREE, SENDS_NO_FILES
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.compare import CompareScreen
from tui.panel.screens.dialogs import LineScreen, QuestionScreen
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.launch import LaunchScreen
from tui.panel.screens.machine_choice import MachineChoiceScreen
from tui.panel.screens.machines import MachinesScreen
from tui.panel.screens.note import NoteScreen
from tui.panel.screens.pictures import PicturesScreen
from tui.panel.screens.remedy import RemedyScreen
from tui.panel.screens.run_detail import RunDetailScreen
from tui.panel.screens.stop import StopScreen
from tui.panel.screens.verify import VerifyScreen
from tui.panel.widgets.launch.fields import FormField
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.runs import RunPane

LOOP = "while :; do echo loss 0.5; sleep 0.1; done"
OUT_OF_MEMORY = (
    "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0'; exit 1"
)


class Panel:
    """An open panel whose cursor is on runs of the machine `rented`."""

    def __init__(self, app: PanelApp, pilot: Pilot[Any], rented: RentedMachine) -> None:
        self.app, self.pilot, self.rented = app, pilot, rented
        self.pane = app.cockpit.query_one(RunPane)

    async def select(self, run: str) -> str:
        """Put the cursor on a run there; the key of its row."""
        key = f"rented/{run}"
        await self.until(lambda: key in self.pane.keys)
        self.pane.select(key)
        return key

    async def until(self, true: Any) -> None:
        await until(self.pilot, true)

    async def open(self, key: str, screen: type) -> None:
        await press(self.pilot, self.app, key, screen)

    async def back(self, *keys: str) -> None:
        await back(self.pilot, self.app, *keys)

    def there(self, run: str) -> Any:
        """The run as the machine has it."""
        return read_run(StateDirectory(self.rented.state), run)


@asynccontextmanager
async def opened(rented: RentedMachine) -> AsyncIterator[Panel]:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(130, 34)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        yield Panel(app, pilot, rented)


async def form_once_reached(panel: Panel) -> LaunchScreen:
    """The launch form, opened when the rented machine has answered."""
    hosts = panel.app.cockpit.remote.open().links.hosts
    await panel.until(lambda: hosts["rented"].is_reached)
    await panel.open("n", LaunchScreen)
    screen = panel.app.screen
    assert isinstance(screen, LaunchScreen)
    return screen


def launch(line: CommandLine, name: str, script: str, *words: str) -> str:
    """Launch a run on the rented machine; its id there."""
    flags = ("--name", name, "--host", "rented", *words)
    return line.run("launch", *flags, "--", "sh", "-c", script, exits=None).stdout.strip()


async def test_labels_are_edited_there_as_they_are_here(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "far", LOOP, "--gpus", "0")
    line.run("tag", run, "good", "old", "--host", "rented")
    async with opened(rented) as panel:
        key = await panel.select(run)
        await panel.until(lambda: panel.pane.selected_row.tags == ("good", "old"))
        await panel.open("t", LineScreen)
        assert panel.app.screen.query_one(Input).value == "good old"
        await panel.back("ctrl+u", *"good new", "enter")
        await panel.until(lambda: set(panel.there(run).labels.tags) == {"good", "new"})
        await panel.open("R", LineScreen)
        await panel.back("ctrl+u", *"better", "enter")
        await panel.until(lambda: panel.there(run).labels.name == "better")
        await panel.open("N", NoteScreen)
        await panel.back(*"two", "enter", *"lines", "ctrl+s")
        await panel.until(lambda: panel.there(run).labels.note == "two\nlines")
        await panel.pilot.press("*")
        await panel.until(lambda: panel.there(run).labels.starred)
        await panel.until(lambda: panel.pane.lines.live[key].starred)
        await panel.pilot.press("*")
        await panel.until(lambda: not panel.there(run).labels.starred)


async def test_a_queued_run_there_goes_sooner_and_a_deleted_one_comes_back(
    line: CommandLine, rented: RentedMachine
) -> None:
    holds = launch(line, "holds", LOOP, "--gpus", "all")
    waits = launch(line, "waits", "true", "--gpus", "1")
    ended = launch(line, "ended", "true", "--gpus", "0", "--wait")
    async with opened(rented) as panel:
        key = await panel.select(waits)
        await panel.until(lambda: panel.pane.selected_row.state is State.QUEUED)
        await panel.pilot.press("plus")
        await panel.until(lambda: panel.there(waits).plan.spec.priority == 1)
        await panel.pilot.press("minus")
        await panel.until(lambda: panel.there(waits).plan.spec.priority == 0)
        await panel.open("s", StopScreen)
        await panel.back("y")
        await panel.until(lambda: panel.there(waits).state is State.CANCELLED)

        await panel.select(holds)
        panel.app.clear_notifications()
        await panel.pilot.press("plus")
        log = panel.app.runs.log
        await panel.until(lambda: bool(log.undone))
        assert [undone.mark for undone in log.undone.values()] == ["✗ failed"]

        def refused() -> list[str]:  # that the other run has ended is told as well
            return [n.message for n in panel.app._notifications if "holds" in n.message]

        await panel.until(lambda: bool(refused()))
        assert len(refused()) == 1, "one refusal is told once"

        await panel.select(ended)
        await panel.open("x", QuestionScreen)
        await panel.back("y")
        gone = StateDirectory(rented.state).run(ended).path
        await panel.until(lambda: not gone.exists())
        await panel.until(lambda: f"rented/{ended}" not in panel.pane.keys)
        await panel.pilot.press("u")
        await panel.until(lambda: gone.exists())
        assert key in panel.pane.keys
    script = panel.app.runs.log.script
    assert f"fresnel-tui undelete {ended} --host rented" in script


async def test_stop_says_what_is_lost_and_kills_there(
    line: CommandLine, rented: RentedMachine
) -> None:
    script = "trap '' INT TERM; while :; do sleep 0.1; done"
    run = launch(line, "deaf", script, "--gpus", "0")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("s", StopScreen)
        text = panel.app.screen.query_one("#stop-text", Static)
        await panel.until(lambda: "SIGINT" in str(text.content))
        await panel.open("k", QuestionScreen)
        await panel.back("y")
        await panel.until(lambda: panel.there(run).state is State.STOPPED)
    assert f"fresnel-tui stop {run} --force --host rented" in panel.app.runs.log.script


async def test_a_run_there_is_paused_and_goes_on_by_key_and_by_command(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "pausing", LOOP, "--gpus", "0")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.until(lambda: panel.there(run).state is State.RUNNING)
        await panel.until(lambda: panel.pane.selected_row.state is State.RUNNING)
        for paused in (True, False):
            await panel.pilot.press("P")
            await panel.until(
                lambda paused=paused: (panel.pane.selected_row.doing is Condition.PAUSED) is paused
            )
    for command, paused in (("pause", True), ("continue", False)):
        line.run(command, run, "--host", "rented")
        shown = json.loads(line.run("status", run, "--json", "--host", "rented").stdout)
        assert (shown["paused"] is not None) is paused


async def test_a_command_about_several_runs_there_says_which_it_was_not_done_to(
    line: CommandLine, rented: RentedMachine
) -> None:
    """How many, and why not the others, as of runs of here; one that is gone keeps it from all."""
    runs = [launch(line, f"part{n}", LOOP, "--gpus", "0") for n in range(3)]
    gone = f"{runs[0][:-4]}0000"
    async with opened(rented) as panel:
        await panel.select(runs[0])
        await panel.until(lambda: all(panel.there(run).state is State.RUNNING for run in runs))
        line.run("pause", runs[1], "--host", "rented")
        place = panel.app.cockpit.remote.place("rented")
        assert place is not None
        log = panel.app.runs.log
        panel.app.runs.act(place, PauseRuns(tuple(runs)))
        await panel.until(lambda: 0 in log.undone)
        assert log.undone[0].mark == "⚠ 2 of 3 done" and runs[1] in log.undone[0].runs
        assert log.undone[0].why.startswith("part1 "), log.undone[0].why
        told = [n for n in panel.app._notifications if n.severity == "error"]
        assert all("part0" not in n.message for n in told) and len(told) == 1, told
        panel.app.runs.act(place, PauseRuns((*runs, gone), paused=False))
        await panel.until(lambda: 1 in log.undone)
        assert log.undone[1].mark == "✗ failed"
        assert all(StateDirectory(rented.state).run(run).pause.exists() for run in runs)


async def test_what_is_read_of_a_run_there_stands_in_the_screens_of_here(
    line: CommandLine, rented: RentedMachine
) -> None:
    failed = launch(line, "oom", OUT_OF_MEMORY, "--gpus", "0", "--wait")
    other = launch(line, "other", "echo lr=2", "--gpus", "0", "--wait")
    here = line.run("launch", "--gpus", "0", "--name", "near", "--wait", "--", "true")
    async with opened(rented) as panel:
        await panel.select(failed)
        await panel.open("enter", RunDetailScreen)
        detail = panel.app.screen
        await panel.until(lambda: "oom" in str(detail.query_one(".dialog").border_title))
        await panel.back("escape")

        await panel.open("d", RemedyScreen)
        verdict = panel.app.screen.query_one("#verdict-text", Static)
        await panel.until(lambda: "memory" in str(verdict.content))
        options = panel.app.screen.query_one(OptionList)
        await panel.until(lambda: options.option_count > 0)
        await panel.back("escape")

        await panel.open("y", type(panel.app.cockpit))
        await panel.until(
            lambda: any("OutOfMemoryError" in note.message for note in panel.app._notifications)
        )

        panel.pane.select(f"rented/{failed}")
        await panel.pilot.press("space")
        for key in (f"rented/{other}", here.stdout.strip()):
            await panel.until(lambda key=key: key in panel.pane.keys)
            panel.pane.select(key)
            await panel.pilot.press("space")
        await panel.open("equals_sign", CompareScreen)
        table = panel.app.screen.query_one("#comparison", Static)
        await panel.until(lambda: all(n in str(table.content) for n in ("oom", "other", "near")))
        await panel.back("escape")


async def test_a_run_there_is_launched_again_by_the_form_of_here_and_its_plan_is_what_runs(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "first", "echo lr=1", "--gpus", "0", "--wait")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("a", LaunchScreen)
        plan = panel.app.screen.query_one("#planned", Static)
        await panel.until(lambda: "sh -c" in str(plan.content))
        for key, text in (("command", "sh -c 'echo lr=2'"), ("gpus", "1")):
            field = next(f for f in panel.app.screen.query(FormField) if f.key == key)
            field.put(text)
        await panel.until(lambda: "echo lr=2" in str(plan.content) and "GPU" in str(plan.content))
        shown = str(plan.content)
        await panel.back("f2")
        state = StateDirectory(rented.state)
        await panel.until(lambda: len(list(state.runs.iterdir())) == 2)
        await panel.until(lambda: panel.pane.key not in (None, f"rented/{run}"))
        made = panel.there(panel.pane.key.removeprefix("rented/"))
        assert made.plan.argv[-1] == "echo lr=2"
        assert shlex.join(made.plan.argv) in shown
        assert made.plan.working_directory in shown
        assert [gpu.index for gpu in made.plan.gpus] == [0]
    assert "--host rented" in panel.app.runs.log.script


async def test_the_form_changes_machines_and_keeps_what_was_typed(
    line: CommandLine, rented: RentedMachine
) -> None:
    async with opened(rented) as panel:
        screen = await form_once_reached(panel)
        await panel.until(lambda: len(screen.presets._choices) > 1)
        typed, command = "echo {over} there", "sh -c 'echo over there'"
        screen.query_one("#filter", Input).value = typed
        await panel.pilot.press("enter")

        def put() -> bool:
            for field in screen.query(FormField):
                # What was typed comes when the fields stand, and would replace it.
                if field.key == "command" and field.value == typed:
                    field.put(command)
                    return True
            return False

        await panel.until(put)
        await panel.open("f8", MachineChoiceScreen)
        await panel.pilot.press("down", "enter")
        await panel.until(lambda: "rented" in str(screen.query_one(".dialog").border_title))
        (rented.home / "elsewhere").mkdir()
        folder = next(field for field in screen.query(FormField) if field.key == "d:folder")
        folder.put("~/elsewhere")  # before that machine's presets have come
        plan = screen.query_one("#planned", Static)
        await panel.until(lambda: "echo over there" in str(plan.content))
        await panel.until(lambda: f"{rented.home}/elsewhere" in str(plan.content))
        await panel.back("f2")
        state = StateDirectory(rented.state)
        await panel.until(lambda: state.runs.is_dir() and len(list(state.runs.iterdir())) == 1)
        assert not list(StateDirectory().runs.iterdir())


async def test_the_form_says_that_it_sends_no_files_and_which_command_does(
    line: CommandLine, rented: RentedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path / "here")
    async with opened(rented) as panel:
        screen = await form_once_reached(panel)
        await panel.until(lambda: len(screen.presets._choices) > 1)
        screen.query_one("#filter", Input).value = "python3 train.py"
        await panel.pilot.press("enter")
        outcome = screen.query_one("#outcome", Static)
        await panel.until(lambda: "starts now" in str(outcome.content))
        assert SENDS_NO_FILES not in str(outcome.content)
        await panel.open("f8", MachineChoiceScreen)
        await panel.pilot.press("down", "enter")
        await panel.until(lambda: SENDS_NO_FILES in str(outcome.content))
        assert "--host rented -- python3 train.py" in str(outcome.content)


async def test_what_is_wrong_there_is_told_by_the_plan_and_nothing_starts(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "first", "true", "--gpus", "0", "--wait")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("a", LaunchScreen)
        plan = panel.app.screen.query_one("#planned", Static)
        await panel.until(lambda: "sh -c" in str(plan.content))
        field = next(f for f in panel.app.screen.query(FormField) if f.key == "gpus")
        field.put("9")
        await panel.until(lambda: "denied" in str(plan.content))
        await panel.open("f7", VerifyScreen)
        found = panel.app.screen.query_one("#found", Static)
        await panel.until(lambda: "FAIL" in str(found.content))
        await panel.open("escape", LaunchScreen)
        await panel.back("escape", "escape")
        assert len(list(StateDirectory(rented.state).runs.iterdir())) == 1


async def test_a_run_there_that_has_no_checkpoint_is_not_resumed_and_says_why(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "first", "true", "--gpus", "0", "--wait")
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.pilot.press("r")
        await panel.until(lambda: any(n.severity == "error" for n in panel.app._notifications))
        assert panel.app.screen is panel.app.cockpit


async def test_a_machine_of_the_machines_screen_is_launched_on(
    line: CommandLine, rented: RentedMachine
) -> None:
    async with opened(rented) as panel:
        await panel.open("H", MachinesScreen)
        await panel.until(lambda: panel.app.screen.query_one(OptionList).option_count == 1)
        hosts = panel.app.cockpit.remote.open().links.hosts
        await panel.until(lambda: hosts["rented"].is_reached)
        machines = panel.app.screen.query_one(OptionList)
        await panel.until(lambda: GPUS_FREE in str(machines.get_option_at_index(0).prompt))
        await panel.open("n", LaunchScreen)
        screen = panel.app.screen
        assert isinstance(screen, LaunchScreen)
        await panel.until(lambda: "example" in [c.entry.name for c in screen.presets._choices])
        await panel.until(lambda: len(screen.form.picker.gpus) == 2)
        await panel.back("escape")


async def test_stacks_of_a_run_there_stand_in_the_place_of_its_output(
    line: CommandLine, rented: RentedMachine, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    program = (
        "import os, time; print('a line of output', flush=True)\n"
        f"while not os.path.exists({str(more)!r}): time.sleep(0.1)\n"
        "print('another line', flush=True); time.sleep(600)"
    )
    words = ("--gpus", "0", "--name", "hangs", "--host", "rented", "--")
    run = line.run("launch", *words, sys.executable, "-c", program).stdout.strip()
    async with opened(rented) as panel:
        key = await panel.select(run)
        log = panel.app.cockpit.query_one(LogArea).log_pane

        def shown() -> str:
            return str(log.reader.document.tail(40))

        await panel.until(lambda: "a line of output" in shown())
        await panel.pilot.press("T")
        await panel.until(lambda: log.reader.document.path.name == "stacks.txt")
        await panel.until(lambda: "the program: " in shown())
        # As they were saved there: on a busy machine, that py-spy took too long.
        [saved] = StateDirectory(rented.state).run(run).path.glob("stacks/*/all.txt")
        assert log.reader.document.path.read_text() == saved.read_text()
        assert panel.pane.key == key
        # Coming back from another screen, it follows the logs that are shown, and no others.
        await panel.open("question_mark", HelpScreen)
        await panel.back("escape")
        await panel.pilot.press("T")
        await panel.until(lambda: "a line of output" in shown())
        more.touch()
        await panel.until(lambda: "another line" in shown())


async def test_a_machine_that_is_not_reached_says_so_and_nothing_is_noted(
    line: CommandLine, rented: RentedMachine
) -> None:
    run = launch(line, "far", LOOP, "--gpus", "0")
    async with opened(rented) as panel:
        await panel.select(run)
        rented.wire.close()
        place = panel.app.cockpit.places.named("rented")
        await panel.until(lambda: "not reached" in place.obstacle)
        await panel.pilot.press("s")
        await panel.until(
            lambda: any("not reached" in note.message for note in panel.app._notifications)
        )
        assert panel.app.screen is panel.app.cockpit
        assert panel.app.runs.log.lines == []


async def test_pictures_of_a_run_there_are_shown_here(
    line: CommandLine, rented: RentedMachine
) -> None:
    code = "from PIL import Image; Image.new('RGB', (8, 8), 'red').save('sample_epoch3.png')"
    words = ("--gpus", "0", "--name", "paints", "--wait", "--host", "rented", "--")
    run = line.run("launch", *words, sys.executable, "-c", code).stdout.strip()
    async with opened(rented) as panel:
        await panel.select(run)
        await panel.open("I", PicturesScreen)
        box = panel.app.screen.query(".picture-words").first(Static)
        await panel.until(lambda: "epoch 3" in str(box.content) and "8 × 8" in str(box.content))
        await panel.back("escape")
