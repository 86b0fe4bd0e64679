"""How little of the screen is sent to the terminal: only what changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from runners.state.layout import StateDirectory
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.cockpit.screen import CockpitScreen
from tui.panel.screens.help import HelpScreen
from tui.panel.terminal.repainting import ChangedWidgets, PaintedOnce, TitledBorder
from tui.panel.terminal.terminal_app import TerminalApp
from tui.panel.widgets.key_bar import KeyBar
from tui.panel.widgets.metrics import settings_pane
from tui.panel.widgets.row_list import RowList
from tui.panel.widgets.row_painting import strip_of
from tui.panel.widgets.runs import RunPane

CONSOLE = Console(force_terminal=True, color_system="truecolor", width=40)


ROWS = {
    "plain": Text("a row"),
    "appended": Text("A ", style="bold").append("✓ ", style="green").append("name").append("  9%"),
    "with bars": Text()
    .append("██▌      12% ", style="green")
    .append("8.1 GB/80 GB")
    .append(" A:0"),
    "too long": Text("word ").append("a name of some length " * 3, style="yellow"),
    "wide": Text("日本語 ").append("の行", style="red").append(" of a row that is too long for it"),
    "a mark over all": Text("one two three", spans=[Span(0, 13, "dim"), Span(4, 7, "bold")]),
    "a style nobody knows": Text("a ").append("row", style="no-such-style"),
    "nothing": Text(""),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("width", [3, 12, 40])
def test_a_row_is_painted_as_rich_would_paint_it(row: Text, width: int) -> None:
    style = Style(color="white", bgcolor="black")
    whole = row.copy()
    whole.truncate(width, overflow="ellipsis", pad=True)
    expected = Strip(
        Segment(part.text, style + (part.style or Style())) for part in whole.render(CONSOLE)
    ).adjust_cell_length(width, style)
    found = strip_of(row, width, CONSOLE, style)
    assert found.cell_length == width
    assert found.render(CONSOLE) == expected.simplify().render(CONSOLE)


def test_a_row_of_one_style_is_painted_in_it() -> None:
    strip = strip_of(Text("reading…", style="dim"), 12, CONSOLE, Style(color="white"))
    assert [(part.text, bool(part.style and part.style.dim)) for part in strip] == [
        ("reading…    ", True)
    ]


class Overlaid(PaintedOnce[None]):
    """Two lists side by side, words below them, and a note over one of the lists."""

    CSS = """
    Overlaid { layers: below above; }
    Horizontal { height: 6; }
    RowList { width: 1fr; border: round white; }
    #note { layer: above; width: 10; height: 2; offset: 2 2; background: red; }
    """

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield RowList(id="left")
            yield RowList(id="right")
        yield Static("words below", id="below")
        yield Static("a note", id="note")


async def test_only_the_widgets_in_which_something_changed_are_rendered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App[None]()
    async with app.run_test(size=(40, 10)) as pilot:
        screen = Overlaid()
        await app.push_screen(screen)
        screen.begin_to_paint()
        left, right = (screen.query_one(name, RowList) for name in ("#left", "#right"))
        for rows in (left, right):
            rows.set_rows(("a", "b", "c"), [Text(word) for word in ("one", "two", "three")])
        await pilot.pause()
        asked: list[tuple[str | None, int]] = []
        render = Widget.render_lines

        def noted(widget: Widget, crop: Region) -> list[Strip]:
            asked.append((widget.id, crop.height))
            return render(widget, crop)

        monkeypatch.setattr(Widget, "render_lines", noted)
        compositor = screen._compositor
        assert isinstance(compositor, ChangedWidgets)
        right.set_rows(("a", "b", "c"), [Text(word) for word in ("one", "2wo", "three")])
        compositor.update_widgets({right})
        update = compositor.render_partial_update()
        assert update is not None and asked == [("right", 1)]
        asked.clear()
        # Under the note: what is seen is the note, and the list beside it.
        left.refresh(Region(0, 1, 18, 1))
        compositor.update_widgets({left})
        update = compositor.render_partial_update()
        assert update is not None and asked == [("note", 1), ("left", 1)]
        ((y, first, last),) = update.spans
        sent = [
            (start, strip)
            for start, strip in update.chops[y].items()
            if strip is not None and first <= start < last
        ]
        words = "".join(strip.text for _, strip in sent)
        line = compositor.render_strips()[y].text
        assert "a note" in words and words == line[sent[0][0] :][: len(words)]


class TwoRows(App[None]):
    """A list in a border, and the hints."""

    CSS = "RowList { border: round white; height: 6; }"

    def compose(self) -> ComposeResult:
        yield RowList(id="rows")
        yield KeyBar()


async def test_another_title_paints_the_border_and_no_row() -> None:
    app = TwoRows()
    async with app.run_test(size=(40, 10)) as pilot:
        rows = app.query_one(RowList)
        rows.set_rows(("a", "b"), [Text("first"), Text("second")])
        await pilot.pause()
        asked: list[int] = []
        rows.render_line = lambda y: asked.append(y) or RowList.render_line(rows, y)  # type: ignore[assignment, method-assign, func-returns-value]
        rows.retitle("find: [red]x[/red]", "2 of 3")
        await pilot.pause()
        lines = [
            "".join(segment.text for segment in line)
            for line in app.screen._compositor.render_strips()
        ]
        assert "find: [red]x[/red]" in lines[0]
        assert "2 of 3" in lines[5]
        assert "first" in lines[1]
        assert not asked

        rows.set_rows(("a", "b"), [Text("first"), Text("2econd")])
        await pilot.pause()
        assert asked == [1]


async def test_rows_follow_the_theme() -> None:
    app = TwoRows()
    async with app.run_test(size=(40, 10)) as pilot:
        rows = app.query_one(RowList)
        assert isinstance(rows, TitledBorder)
        before = rows.style_of()
        app.theme = "textual-light"
        await pilot.pause()
        assert rows.style_of() == rows.rich_style != before


@pytest.mark.parametrize(("columns", "has_palette"), [(50, False), (80, True)])
async def test_the_hints_keep_help_and_quit_where_there_is_little_room(
    columns: int, has_palette: bool
) -> None:
    from textual.binding import Binding, BindingType

    class ManyKeys(TwoRows):
        BINDINGS: ClassVar[list[BindingType]] = [
            *(Binding(letter, f"noop('{letter}')", f"Do {letter}") for letter in "abcdefg"),
            Binding("question_mark", "help", "Help", key_display="?"),
            Binding("q", "leave", "Leave"),
        ]
        left = False

        def action_leave(self) -> None:
            self.left = True

    app = ManyKeys()
    async with app.run_test(size=(columns, 10)) as pilot:
        await pilot.pause()
        line = app.query_one(KeyBar).render().plain
        assert line.startswith(" a Do a  b Do b ")
        assert "? Help  q Leave" in line and ("▏^p palette" in line) is has_palette
        assert "g Do g" not in line
        assert not app.left
        await pilot.click(KeyBar, offset=(line.index("q Leave"), 0))
        await pilot.pause()
        assert app.left


async def test_details_asked_for_before_their_page_is_made_come_with_the_next_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings_pane, "describe", lambda *_: {})
    monkeypatch.setattr(settings_pane, "draw_details", lambda *_: Text("settings"))
    view: Any = SimpleNamespace(run=SimpleNamespace(id="a", name="a"))
    store: Any = SimpleNamespace(settings=lambda _: {}, notes=lambda _: [])
    app = App[None]()
    async with app.run_test() as pilot:
        pane = settings_pane.SettingsPane()
        mounted = app.mount(pane)
        assert not pane.query(Static)
        pane.show(view, "A", (), store)
        await mounted
        await pilot.pause()
        pane.show(view, "A", (), store)
        assert str(pane.query_one(Static).content) == "settings"


async def test_nothing_is_done_twice_for_the_first_paint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    focused: list[str] = []
    styled: list[str] = []
    show, focus, style = CockpitScreen.show, CockpitScreen.set_focus, CockpitScreen.update_classes

    def show_it(screen: CockpitScreen, snapshot: Any) -> None:
        shown.append(snapshot)
        show(screen, snapshot)

    def focus_it(screen: CockpitScreen, widget: Any, *how: Any, **named: Any) -> None:
        focused.append(type(widget).__name__)
        focus(screen, widget, *how, **named)

    def style_it(screen: CockpitScreen, classes: Any, **named: Any) -> Any:
        styled.extend(name for name, is_set in classes.items() if is_set != screen.has_class(name))
        return style(screen, classes, **named)

    monkeypatch.setattr(CockpitScreen, "show", show_it)
    monkeypatch.setattr(CockpitScreen, "set_focus", focus_it)
    monkeypatch.setattr(CockpitScreen, "update_classes", style_it)
    app = PanelApp(StateDirectory(tmp_path).create())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and app.cockpit.paints)
        assert len({id(one) for one in shown}) == len(shown)
        assert {*focused} == {"RunPane"} and isinstance(app.focused, RunPane)
        assert not styled


@pytest.mark.parametrize(("size", "height"), [((100, 40), 36), ((120, 40), 40)])
async def test_the_page_of_keys_is_whole_in_its_first_frame(
    size: tuple[int, int], height: int
) -> None:
    app = App[None]()
    frames: list[Region] = []
    async with app.run_test(size=size) as pilot:
        screen = HelpScreen()
        paint = screen._compositor.render_update

        def painted(*how: Any, **named: Any) -> Any:
            page = screen.query("_KeyPage").first()
            frames.append(page.region)
            return paint(*how, **named)

        screen._compositor.render_update = painted  # type: ignore[method-assign]
        await app.push_screen(screen)
        await pilot.pause()
        assert frames[0].height == height and len({*frames}) == 1


@pytest.mark.parametrize(("columns", "side_by_side"), [(80, 1), (120, 2), (200, 3)])
async def test_the_page_of_keys_uses_the_width_there_is(
    columns: int, side_by_side: int, tmp_path: Path
) -> None:
    app = PanelApp(StateDirectory(tmp_path).create())
    async with app.run_test(size=(columns, 60)) as pilot:
        app.simulate_key("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await until(pilot, lambda: bool(app.screen.query("_KeyPage")))
        page = app.screen.query("_KeyPage").first()
        await until(pilot, lambda: bool(page.virtual_size.height))
        first = page.render_line(0).text
        starts = ("Runs: here", "GPUs, runs: here", "Everywhere")
        assert [title in first for title in starts] == [n < side_by_side for n in range(3)]
        # Wide enough, all of it is seen at once.
        assert (page.max_scroll_y == 0) == (columns == 200)
        for y in range(page.virtual_size.height):
            assert page.render_line(y).cell_length <= page.size.width


@pytest.mark.parametrize(("rows", "page"), [(24, 21), (60, 28)])
@pytest.mark.parametrize("columns", [80, 200])
async def test_the_page_of_keys_on_a_slow_line_is_short_and_seen_whole(
    rows: int, page: int, columns: int, tmp_path: Path
) -> None:
    app = PanelApp(StateDirectory(tmp_path).create())
    app.painter.wants_slow = True
    async with app.run_test(size=(columns, rows)) as pilot:
        app.simulate_key("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await until(pilot, lambda: bool(app.screen.query("_KeyPage")))
        shown = app.screen.query("_KeyPage").first()
        await until(pilot, lambda: shown.region.height == page)


def test_styles_are_worked_out_anew_only_where_they_are_seen_or_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(App, "refresh_css", lambda _, animate=True: asked.append(animate))
    app = TerminalApp()
    app.refresh_css()
    assert not asked, "nothing is seen yet, in the colours that it began with"
    app.theme = "textual-light"
    app.refresh_css()
    assert asked == [True]


@pytest.mark.parametrize("width", [80, 120])
async def test_no_screen_gets_a_class_with_its_first_size(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All styles of it would be worked out once more as it opens."""
    changed: list[str] = []

    def note(screen: Screen[Any], *_: Any, **__: Any) -> None:
        changed.append(type(screen).__name__)

    app = PanelApp(StateDirectory())
    async with app.run_test(size=(width, 36)) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        for name in ("add_class", "remove_class", "update_classes"):
            monkeypatch.setattr(Screen, name, note)
        for key in ("question_mark", "dollar_sign", "H", "comma", "c"):
            await pilot.press(key)
            await until(pilot, lambda: len(app.screen_stack) == 2 and app.screen.size.width > 0)
            await pilot.pause()
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)
    assert not set(changed) - {"HelpScreen"}  # that sets its own before it is styled
