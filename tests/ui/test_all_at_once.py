"""Keys and clicks that come all at once, as over a slow line: none acts on what has gone meanwhile."""

import time
from contextlib import nullcontext
from importlib.util import find_spec

import pytest
from rich.style import Style
from textual import notifications
from textual.command import CommandList, CommandPalette
from textual.events import Click, Key, MouseDown
from textual.notifications import Notification
from textual.widgets import OptionList
from textual.widgets._toast import Toast

from runners.model.errors import WrongInput
from runners.state.layout import StateDirectory
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.help import HelpScreen
from tui.panel.screens.launch import LaunchScreen
from tui.panel.terminal.graphics import Graphics, terminal_graphics


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> PanelApp:
    """A panel without GPUs or runs."""
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    return PanelApp(StateDirectory().create())


@pytest.mark.parametrize("keys", [(), ("n",), ("m",), ("dollar_sign",)])
async def test_a_click_on_a_notice_that_goes_in_this_moment_ends_nothing(
    keys: tuple[str, ...], app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press(*keys)
        app.notify("done", timeout=600)
        await until(pilot, lambda: any(toast.region for toast in app.screen.query("Toast")))
        x, y = app.screen.query_one("Toast").content_region.offset
        toast, _ = app.screen.get_widget_at(x, y)
        with monkeypatch.context() as removing:
            # Out of the tree already, on the screen until the next layout.
            removing.setattr(toast, "_parent", None)
            await app.on_event(MouseDown(None, x, y, 0, 0, 1, False, False, False))
        assert app.is_running


@pytest.mark.parametrize("key", ["ctrl+p", "n"])
async def test_a_dialog_closes_once_and_no_other_with_it(key: str, app: PanelApp) -> None:
    async with app.run_test() as pilot:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, (CommandPalette, LaunchScreen)))
        dialog = app.screen
        dialog.dismiss(None)
        dialog.dismiss(None)
        assert app.screen is app.cockpit
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        dialog.dismiss(None)
        assert isinstance(app.screen, HelpScreen)


@pytest.mark.parametrize(("key", "kind"), [("ctrl+p", CommandList), ("n", OptionList)])
async def test_a_click_on_a_line_that_has_gone_chooses_nothing(
    key: str, kind: type[OptionList], app: PanelApp
) -> None:
    async with app.run_test() as pilot:
        await pilot.press(key)
        await until(pilot, lambda: bool(app.screen.query(kind)))
        choices, dialog = app.screen.query_one(kind), app.screen
        await until(pilot, lambda: choices.option_count > 1)
        style = Style.from_meta({"option": choices.option_count})
        at = choices.region.offset
        choices.post_message(Click(choices, 1, 1, 0, 0, 1, False, False, False, *at, style))
        await until(pilot, lambda: choices.message_queue_size == 0)
        await pilot.pause()
        assert app.is_running and app.screen is dialog


async def test_a_search_that_finds_its_palette_closed_ends_nothing(app: PanelApp) -> None:
    async with app.run_test() as pilot:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        palette = app.screen

        async def search() -> None:
            await palette.query_one(CommandList).remove()
            palette.query_one(CommandList)

        worker = palette.run_worker(search())
        await until(pilot, lambda: worker.is_finished)
        await pilot.pause()
        assert worker.error is not None and app.is_running


@pytest.mark.parametrize("key", ["ctrl+p", "n"])
async def test_a_list_without_room_moves_by_no_page(key: str, app: PanelApp) -> None:
    async with app.run_test() as pilot:
        await pilot.press(key)
        await until(pilot, lambda: bool(app.screen.query(OptionList)))
        choices = app.screen.query(OptionList).first()
        await until(pilot, lambda: choices.option_count > 1)
        choices.highlighted = 1
        choices.styles.width = 0
        await until(pilot, lambda: not choices.scrollable_content_region)
        choices.replace_option_prompt_at_index(0, "another")
        choices.action_page_down()
        choices.action_page_up()
        assert choices.highlighted == 1


@pytest.mark.skipif(find_spec("textual_image") is None, reason="the extra `pictures` shows them")
def test_keys_that_a_terminal_s_answer_is_mixed_with_end_nothing(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> object:
        return int("<2")  # a click's

    monkeypatch.setattr("tui.panel.terminal.graphics._known", [])
    monkeypatch.setattr("textual_image._terminal.get_cell_size", answer)
    monkeypatch.setattr(app, "suspend", nullcontext)
    assert terminal_graphics(app) is Graphics.BLOCKS


async def test_presets_that_cannot_be_read_hold_up_no_key(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter waited for them; with it each key that came after."""

    def refuse(*_: object) -> None:
        raise WrongInput("no presets")

    monkeypatch.setattr("tui.panel.launch_planner.answer_launch", refuse)
    async with app.run_test() as pilot:
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await pilot.press(*"echo", "enter", "ctrl+q")
        await until(pilot, lambda: not app.is_running)


async def test_however_many_keys_are_typed_for_what_has_gone(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was one step deeper for the interpreter."""
    async with app.run_test() as pilot:
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and bool(app.focused))
        with monkeypatch.context() as removing:
            removing.setattr(app.focused, "_parent", None)
            removing.setattr(app.focused, "_closing", True)
            app._typed.extend(Key("x", "x") for _ in range(2000))
            await app._next_key()
            assert not app._typed


async def test_notices_of_a_key_that_is_held_do_not_pile_up(app: PanelApp) -> None:
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        for _ in range(50):
            app.notify("nothing to stop here", timeout=60)
        for number in range(50):
            app.notify(f"another {number}", timeout=60)
        told = lambda: [str(toast.render()) for toast in app.screen.query("Toast")]  # noqa: E731
        await until(pilot, lambda: "another 49" in told())
        assert len(told()) <= 8
        app.clear_notifications()
        app.notify("another 49", timeout=60)
        await until(pilot, lambda: told() == ["another 49"])


async def test_notices_that_differ_are_all_shown_the_newest_last(app: PanelApp) -> None:
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        for title in ("first", "second"):
            app.notify("done after 3 s", title=title, timeout=60)
        for message in ("by loss", "by accuracy", "by loss", "[b]by[/b] name"):
            app.notify(message, timeout=60)
        wanted = ["first\ndone after 3 s", "second\ndone after 3 s"]
        wanted += ["by loss", "by accuracy", "by loss", "by name"]
        told = lambda: [str(toast.render()) for toast in app.screen.query("Toast")]  # noqa: E731
        await until(pilot, lambda: told() == wanted)


async def test_a_notice_that_is_over_before_it_is_shown_holds_up_nothing(
    app: PanelApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a clock that is set on a day between Textual's look at it and the timer's."""
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        with monkeypatch.context() as patched:
            patched.setattr(notifications, "time", lambda: time.time() + 86_400)
            toast = Toast(notice_of(app, "a notice"))
            await app.screen.mount(toast)
            await until(pilot, lambda: not toast.is_attached)


def notice_of(app: PanelApp, text: str) -> Notification:
    """What the panel gives to be shown."""
    given: list[Notification] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(app, "post_message", lambda message: given.append(message.notification))
        app.notify(text, timeout=4)
    return given[0]
