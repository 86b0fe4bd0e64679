"""How little of the screen is sent to the terminal: only what changed."""

from __future__ import annotations

import re
from typing import ClassVar

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual._compositor import ChopsUpdate
from textual.app import App, ComposeResult
from textual.strip import Strip

from tui.panel.terminal.painting import ChangedCells, TitledBorder
from tui.panel.widgets.key_bar import KeyBar
from tui.panel.widgets.row_list import RowList

CONSOLE = Console(force_terminal=True, color_system="truecolor", width=40)


def written(strips: dict[int, Strip], ends: list[int], *spans: tuple[int, int, int]) -> str:
    return ChangedCells.of(ChopsUpdate([strips], list(spans), [ends])).render_segments(CONSOLE)


def plain(text: str) -> list[tuple[str, str]]:
    return re.findall(r"\x1b\[(\d+;\d+)H((?:\x1b\[[0-9;]*m|[^\x1b])*)", text)


def test_only_the_changed_cells_of_a_line_are_sent() -> None:
    left = Strip([Segment("running ", Style(color="green")), Segment("epoch 12")])
    right = Strip([Segment("the log beside it")])
    sent = written({0: left, 16: right}, [16, 33], (0, 14, 16))
    assert plain(sent) == [("1;15", "12")]

    sent = written({0: left, 16: right}, [16, 33], (0, 14, 19))
    assert plain(sent) == [("1;15", "12"), ("1;17", "the")]

    sent = written({0: left, 16: right}, [16, 33], (0, 0, 33))
    cells = "".join(re.sub(r"\x1b\[[0-9;]*m", "", words) for _, words in plain(sent))
    assert cells == "running epoch 12the log beside it"


def test_half_a_wide_character_is_not_sent() -> None:
    strip = Strip([Segment("ab日本cd")])
    sent = written({0: strip}, [8], (0, 3, 8))
    assert plain(sent) == [("1;4", " 本cd")]


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
        before = rows.own_style
        app.theme = "textual-light"
        await pilot.pause()
        assert rows.own_style == rows.rich_style != before


async def test_the_hints_keep_help_and_quit_where_there_is_little_room() -> None:
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
    async with app.run_test(size=(50, 10)) as pilot:
        await pilot.pause()
        line = app.query_one(KeyBar).render().plain
        assert line.startswith(" a Do a  b Do b ")
        assert "? Help  q Leave" in line and "▏^p palette" in line
        assert "g Do g" not in line
        assert not app.left
        await pilot.click(KeyBar, offset=(line.index("q Leave"), 0))
        await pilot.pause()
        assert app.left
