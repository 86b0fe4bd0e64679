"""A disk that is full, a file that is damaged, an answer that is odd: the panel says so and goes on."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from runners.model.states import State
from runners.places.table import KINDS, KindRow
from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.ui.fake_place import RUN, FakePlace
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.cockpit import hosts
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.run_detail import RunDetailScreen
from tui.panel.widgets import meter as meter_module
from tui.panel.widgets import run_choice
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane
from tui.views.runs import run_details
from tui.views.runs.run_details import RunDetails

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refuse(*_: object) -> Any:
    """What a full disk does."""
    raise FULL


async def goes_on(app: PanelApp, pilot: Pilot[None]) -> None:
    """The panel answers a key."""
    await pilot.press("escape")
    await until(pilot, lambda: app.screen is app.cockpit)
    await pilot.press("question_mark")
    await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def told(app: PanelApp, pilot: Pilot[None], text: str) -> None:
    """A notice says this."""
    notices = app._notifications
    await until(pilot, lambda: any(text in notice.message for notice in notices))


@pytest.mark.parametrize("does", ["log_path", "follow", "act"])
async def test_a_full_disk_ends_no_panel_that_looks_at_another_machine(
    does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakePlace, does, refuse)
    monkeypatch.setitem(KINDS, "fake", KindRow("tests.ui.fake_place:FakeKind", lambda _: True))
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        pane, key = app.cockpit.query_one(RunPane), f"cluster/{RUN}"
        await until(pilot, lambda: key in pane.keys)
        pane.select(key)
        await pilot.press("T")
        await pilot.press("*")
        await told(app, pilot, os.strerror(errno.ENOSPC))
        await goes_on(app, pilot)


@pytest.mark.parametrize("starts", ["start_watchers", "resume_fetches", "start_dispatcher"])
async def test_helpers_that_cannot_be_started_keep_no_machine_away(
    starts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, starts, refuse)
    monkeypatch.setitem(KINDS, "fake", KindRow("tests.ui.fake_place:FakeKind", lambda _: True))
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.cockpit.query_one(RunPane)
        await until(pilot, lambda: f"cluster/{RUN}" in pane.keys)
        await told(app, pilot, os.strerror(errno.ENOSPC))


async def test_a_damaged_file_of_one_machine_costs_that_machine_alone() -> None:
    state = StateDirectory().create()
    for name in ("odd", "fine"):
        (state.remote / name).mkdir(parents=True)
    (state.remote / "odd" / "host.json").write_text("{")
    (state.remote / "fine" / "host.json").write_text('{"name": "fine", "address": "a@b"}')
    app = PanelApp(state)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: app.cockpit.remote.hosts is not None)
        links = app.cockpit.remote.open().links
        assert set(links.not_set_up) == {"odd", "fine"}
        await pilot.press("n", "escape", "H")
        await until(pilot, lambda: app.screen is not app.cockpit)
        (state.remote / "odd" / "host.json").write_text("{{")
        await until(pilot, lambda: app.is_running)
        await goes_on(app, pilot)


async def test_a_question_that_fails_oddly_is_asked_again(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.command("sleep", "300")
    read: Callable[..., RunDetails] = run_details.read_details
    asked: list[object] = []

    def fail_once(*given: Any) -> RunDetails:
        asked.append(given)
        if len(asked) == 1:
            raise ValueError("embedded null byte")
        return read(*given)

    monkeypatch.setattr(run_details, "read_details", fail_once)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: len(app.cockpit.query_one(RunPane).keys) == 1)
        await pilot.press("i")
        await until(pilot, lambda: isinstance(app.screen, RunDetailScreen))
        await until(pilot, lambda: len(asked) > 1)
        text = app.screen.query_one("#run-detail", Static)
        await until(pilot, lambda: "sleep" in str(text.content))


@pytest.mark.parametrize("width", [80, 200])
async def test_details_of_another_machine_may_have_no_section(width: int) -> None:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(width, 30)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        nothing = RunDetails("run", State.DONE, [], "", [])
        await app.push_screen(RunDetailScreen(lambda take, _: take(nothing)))
        await pilot.pause()
        await goes_on(app, pilot)


async def test_brackets_in_a_metric_s_name_are_brackets(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ended(cli.command("true"))
    named = {"metric": lambda lines, line, by: lines.choice._replace(metric="val[/loss]")}
    monkeypatch.setattr(run_choice, "CHANGES", named)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        pane = app.cockpit.query_one(RunPane)
        await until(pilot, lambda: bool(pane.keys))
        await pilot.press("b")
        await told(app, pilot, "val[/loss]")
        await pilot.pause()
        await goes_on(app, pilot)


async def test_what_is_shown_says_that_it_is_old_when_nothing_newer_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(120, 30)) as pilot:
        meter = app.cockpit.query_one(MeterBar)
        await until(pilot, lambda: app.snapshot is not None)
        monkeypatch.setattr(PanelApp, "_take_in", lambda app, snapshot: None)
        await pilot.pause()
        before = meter.render().plain
        monkeypatch.setattr(meter_module, "_LATE_S", -1.0, raising=False)
        assert meter.render().plain != before


async def test_a_run_that_was_removed_is_not_launched_again_as_another(cli: CommandLine) -> None:
    """The form opened empty, as for a new one."""
    run = cli.command("true")
    cli.ended(run)
    app = PanelApp(StateDirectory())
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.cockpit.query_one(RunPane)
        await until(pilot, lambda: bool(pane.keys))
        app.cockpit.places._view_of = lambda _: None
        app.cockpit.parts.view_of = lambda _: None  # type: ignore[method-assign]
        await pilot.press("a")
        await told(app, pilot, "removed")
        assert app.screen is app.cockpit
