"""What a key is about changes while its page is open, or before its answer: it acts on no other."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList

from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.run import RunRecord, StopProgress
from runners.model.states import State
from runners.places import here
from runners.places.actions import Outcome, StopRuns
from runners.places.table import KINDS, KindRow
from runners.state.layout import StateDirectory
from runners.state.leases import Lease
from runners.state.runs import list_runs
from tests.process.conftest import CommandLine
from tests.support import make_run
from tests.ui.fake_place import RUN, FakeKind, FakePlace
from tests.ui.waiting import CEILING, until
from tui.panel.app import PanelApp
from tui.panel.panel_memory import remember
from tui.panel.screens.launch import LaunchScreen
from tui.panel.screens.machines import MachineLine, MachinesScreen
from tui.panel.screens.remedy import RemedyScreen
from tui.panel.screens.session_form import SessionScreen
from tui.panel.screens.stop import StopScreen
from tui.panel.screens.table_choice import ViewsScreen, read_views
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.runs import RunPane
from tui.views.money import session_offer
from tui.views.runs import form_plan
from tui.views.runs.run_view import view_run

CHECKED = "launcher: command\ncommand: [sleep, '300']\ngpus: 0\nverify: [data]\n"


class Gate:
    """Holds up a function in its thread until it is opened."""

    def __init__(self, do: Callable[..., Any]) -> None:
        self.begun, self._opened, self._do = threading.Event(), threading.Event(), do

    def __call__(self, *given: Any) -> Any:
        self.begun.set()
        assert self._opened.wait(CEILING)
        return self._do(*given)

    def open(self) -> None:
        self._opened.set()


async def on_top(pilot: Pilot[None], kind: type[Screen[Any]]) -> Any:
    """The screen of this kind, once it is there."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, kind) and app.screen.is_mounted)
    return app.screen


def without_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a screen is shown only what the test shows it."""
    monkeypatch.setattr(PanelApp, "_take_in", lambda app, snapshot: None)


# ---- GPUs of several machines


class Holder(FakePlace):
    """A machine whose one GPU is held by its run."""

    def _show(self, state: State) -> None:
        super()._show(state)
        gpu = GpuSnapshot(0, "GPU-0", "H100", "nvidia")
        self.snapshot = msgspec.structs.replace(
            self.snapshot,
            reading=GpuReading(0.0, self.name, "nvml", (gpu,)),
            leases={"GPU-0": [Lease("GPU-0", RUN, 0, "demo", 0.0)]},
        )


class HolderKind(FakeKind):
    """That machine alone."""

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        self.places = {"cluster": Holder(state.root, changed)}


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A panel knows that machine."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    row = KindRow("tests.ui.test_subjects:HolderKind", lambda _: True)
    monkeypatch.setitem(KINDS, "fake", row)


async def test_s_at_a_gpu_of_another_machine_stops_the_run_there(holder: None) -> None:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.cockpit.query_one(GpuPane)
        await until(pilot, lambda: app.cockpit.remote.hosts is not None)
        await pilot.press("1", "h")
        await until(pilot, lambda: pane.keys == ("cluster/GPU-0",))
        await pilot.press("s")
        await on_top(pilot, StopScreen)
        await pilot.press("y")
        assert app.cockpit.remote.hosts is not None
        place = app.cockpit.remote.hosts.links.hosts["cluster"]
        assert isinstance(place, FakePlace)
        await until(pilot, lambda: place.done == [StopRuns((RUN,))])


async def test_a_stop_that_is_answered_when_its_machine_is_gone_stops_nothing_here(
    holder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of that run may lie here, under the same id."""
    done: list[object] = []
    monkeypatch.setattr(here, "carry_out", lambda state, action: done.append(action) or Outcome())
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.cockpit.query_one(GpuPane)
        await until(pilot, lambda: app.cockpit.remote.hosts is not None)
        await pilot.press("1", "h")
        await until(pilot, lambda: pane.keys == ("cluster/GPU-0",))
        await pilot.press("s")
        await on_top(pilot, StopScreen)
        assert app.cockpit.remote.hosts is not None
        gone = app.cockpit.remote.hosts.links.hosts.pop("cluster")
        assert isinstance(gone, FakePlace)
        await pilot.press("y")
        await until(pilot, lambda: bool(app._notifications))
        notes = [note.message for note in app._notifications]
        assert [text for text in notes if "cluster" in text] == notes
        assert not done and not gone.done


async def test_among_the_gpus_of_all_machines_those_of_here_are_here(
    holder: None, cli: CommandLine
) -> None:
    held = cli.launch("--gpus", "1", "--name", "held", "--", "sleep", "300")
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.cockpit.query_one(GpuPane)
        await until(pilot, lambda: app.cockpit.remote.hosts is not None)
        await until(pilot, lambda: bool(pane.snapshot and pane.snapshot.leases))
        await pilot.press("1", "h", "h")
        await until(pilot, lambda: len(pane.keys) == 4)
        pane.select(next(key for key in pane.keys if "cluster" not in key and ":" not in key))
        await pilot.press("s")
        screen = await on_top(pilot, StopScreen)
        assert screen.view.run.id == held.id


# ---- a stop


async def test_a_step_that_came_meanwhile_is_not_hurried_by_the_key_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The key that asked for a stop would have sent SIGKILL: somebody else was quicker."""
    running = view_run(make_run())
    ladder = running.run.plan.spec.stop.ladder if running.run.plan else ()
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        without_snapshots(monkeypatch)
        screen, answers = StopScreen(running), list[str | None]()
        app.push_screen(screen, answers.append)
        await on_top(pilot, StopScreen)
        step = len(ladder) - 1
        stop = StopProgress(ladder[step - 1].how, step, len(ladder), 2e9)
        record = RunRecord(State.STOPPING, started=1000.0, stop=stop)
        stopping = msgspec.structs.replace(running.run, state=State.STOPPING, record=record)
        view = msgspec.structs.replace(running, run=stopping)
        assert app.snapshot is not None
        screen.show(msgspec.structs.replace(app.snapshot, runs=(view,)))
        await pilot.press("y")
        assert app.screen is screen and not answers
        await pilot.press("y")
        await until(pilot, lambda: answers == ["stop"])


# ---- a launch


@pytest.fixture
def checks(presets: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The checks of the only preset, held up."""
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    (presets / "aa-checked.yaml").write_text(CHECKED)
    gate = Gate(form_plan.launch_checks)
    monkeypatch.setattr(form_plan, "launch_checks", gate)
    return gate


async def form_that_checks(pilot: Pilot[None], checks: Gate) -> LaunchScreen:
    """The form of that preset, with F2 pressed."""
    await pilot.press("n")
    form: LaunchScreen = await on_top(pilot, LaunchScreen)
    await pilot.press(*"aa-checked", "enter")
    await until(pilot, lambda: form.choice is not None and form.choice.entry.name == "aa-checked")
    await until(pilot, checks.begun.is_set)
    await pilot.press("f2")
    return form


def is_at_work(pilot: Pilot[None]) -> bool:
    """Whether a launch or its checks are under way."""
    return any(each.group in ("checks", "action") and each.is_running for each in pilot.app.workers)


async def test_a_launch_that_is_checked_behind_another_page_is_not_made_twice(
    checks: Gate, cli: CommandLine
) -> None:
    """It was launched, and its form stayed open as if it had not been."""
    state = StateDirectory().create()
    app = PanelApp(state)
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        form = await form_that_checks(pilot, checks)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: app.screen is not form)
        checks.open()
        await until(pilot, lambda: not is_at_work(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is form)
        await pilot.press("f2")
        await until(pilot, lambda: app.screen is app.cockpit)
        await until(pilot, lambda: not is_at_work(pilot) and bool(list_runs(state)))
        assert len(list_runs(state)) == 1


async def test_a_launch_that_was_checked_here_starts_on_no_other_machine(
    checks: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered: list[Sequence[str]] = []
    monkeypatch.setattr(FakePlace, "ask", lambda *_: None)
    monkeypatch.setattr(FakePlace, "command", lambda _, words, done: ordered.append(words))
    monkeypatch.setitem(KINDS, "fake", KindRow("tests.ui.fake_place:FakeKind", lambda _: True))
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(168, 40)) as pilot:
        await until(pilot, lambda: app.cockpit.remote.hosts is not None)
        form = await form_that_checks(pilot, checks)
        await pilot.press("f8", "down", "enter")
        await until(pilot, lambda: app.screen is form and form.planner.name == "cluster")
        checks.open()
        await until(pilot, lambda: not is_at_work(pilot))
        await pilot.pause()
        assert not ordered and app.screen is form


# ---- forms and pages


async def test_gpus_that_were_typed_stay_when_the_prices_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By their number a session's money is counted."""
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    gate = Gate(session_offer.offer_session)
    monkeypatch.setattr(session_offer, "offer_session", gate)
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("dollar_sign", "s")
        form = await on_top(pilot, SessionScreen)
        await until(pilot, gate.begun.is_set)
        form.fields["gpus"].input.focus()
        await pilot.press("8")
        gate.open()
        await until(pilot, lambda: bool(form.prices))
        assert form.fields["gpus"].value == "8"


async def test_a_in_a_run_s_remedies_is_about_that_run(cli: CommandLine) -> None:
    first = cli.command("false", options=("--name", "first"))
    cli.ended(first)
    other = cli.command("false", options=("--name", "other"))
    cli.ended(other)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 40)) as pilot:
        pane = app.cockpit.query_one(RunPane)
        await until(pilot, lambda: {first.id, other.id} <= set(pane.keys))
        pane.select(first.id)
        await pilot.press("d")
        await on_top(pilot, RemedyScreen)
        app.cockpit.select_when_present(other.id)
        await until(pilot, lambda: pane.key == other.id)
        await pilot.press("a")
        form: LaunchScreen = await on_top(pilot, LaunchScreen)
        await until(pilot, lambda: form.choice is not None)
        assert form.choice is not None and "first" in form.choice.entry.name


async def test_the_cursor_comes_to_no_other_machine_once_its_own_is_gone() -> None:
    lines = [MachineLine(name, "reached", True) for name in ("one", "two", "three")]
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        screen = MachinesScreen(lambda: lines, False)
        app.push_screen(screen)
        await on_top(pilot, MachinesScreen)
        choices = screen.query_one(OptionList)
        await until(pilot, lambda: choices.highlighted == 0)
        choices.highlighted = 1
        lines.pop(1)
        await until(pilot, lambda: choices.option_count == 2)
        assert choices.highlighted is None
        lines[:] = [line._replace(summary="tries again in 5 s") for line in lines]
        await until(pilot, lambda: "again" in str(choices.get_option_at_index(0).prompt))
        assert choices.highlighted is None


async def test_views_are_deleted_one_after_the_other_from_where_the_cursor_is() -> None:
    state = StateDirectory().create()
    remember(state, views=[{"name": name} for name in ("a", "b", "c", "d")])
    app = PanelApp(state)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("V")
        await on_top(pilot, ViewsScreen)
        await pilot.press("down", "down", "x", "x")
        assert [view.name for view in read_views(state)] == ["a", "b"]
