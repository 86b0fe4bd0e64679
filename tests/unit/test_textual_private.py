"""The private names of Textual, textual-serve and textual-image that the panel uses.

A test of each says what broke when its library changes it; the last ones find any other.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import textual
from rich.console import RenderableType
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.widgets import Static

from tests.support import REPOSITORY
from tui.panel.terminal.repainting import ChangedWidgets
from tui.panel.terminal.textual_private import (
    PRIVATE_NAMES,
    ChopsUpdate,
    Compositor,
    LayoutUpdate,
    XTermParser,
)

OF_SERVE = {"_make_app", "_open_app_process", "_process", "_process_messages", "_stdin"}
"""Of `textual_serve`: the application's routes, a panel's process and its input, the page's words."""
OF_IMAGE = {"_NUMBER_TO_DIACRITIC", "_terminal"}
"""Of `textual_image`: Kitty's table of marks, and how large a cell is."""
_PUBLIC_BY_FORM = {"_replace", "_asdict", "_fields", "_exit"}
"""Of named tuples and of `os`: no library's secrets."""


# ---- Textual: five names


def test_the_parser_makes_keys_of_a_terminals_bytes() -> None:
    """`textual._xterm_parser`: `XTermParser.feed` and `tick`, and the cursor's place as an event."""
    parser = XTermParser()
    found = list(parser.feed("a\x1b[A\x1b[1;7R"))
    assert [event.key for event in found if isinstance(event, events.Key)] == ["a", "up"]
    assert [(e.x, e.y) for e in found if isinstance(e, events.CursorPosition)] == [(6, 0)]
    assert not list(parser.tick())


class Shown(App[None]):
    """Two words, far from each other."""

    CSS = "#below { dock: bottom; }"

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[RenderableType | None] = []

    def compose(self) -> ComposeResult:
        yield Static("above", id="above")
        yield Static("below", id="below")

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        self.updates.append(renderable)
        super()._display(screen, renderable)


async def test_what_textual_paints_comes_through_one_method() -> None:
    """`App._display`: all of the screen first, then what changed."""
    app = Shown()
    async with app.run_test() as pilot:
        assert any(isinstance(update, LayoutUpdate) for update in app.updates)
        app.updates.clear()
        app.query_one("#above", Static).update("other")
        await pilot.pause()
        assert any(isinstance(update, ChopsUpdate) for update in app.updates)


async def test_an_update_tells_its_cells() -> None:
    """`textual._compositor`: the kinds of update, and what they hold."""
    app = Shown()
    async with app.run_test() as pilot:
        whole = next(update for update in app.updates if isinstance(update, LayoutUpdate))
        assert whole.region == Region(0, 0, *app.size)
        rows = ["".join(strip.text for strip in strips) for strips in whole.strips]
        assert rows[0].rstrip() == "above" and rows[-1].rstrip() == "below"
        app.updates.clear()
        app.query_one("#below", Static).update("newer")
        await pilot.pause()
        part = next(update for update in app.updates if isinstance(update, ChopsUpdate))
        *_, (y, first, last) = part.spans
        assert (y, first) == (app.size.height - 1, 0) and last > 0
        assert part.chop_ends[y][-1] == app.size.width
        assert "".join(strip.text for strip in part.chops[y].values() if strip).startswith("newer")


async def test_a_screen_paints_by_the_compositor_it_is_given() -> None:
    """`Screen._compositor`: made in `__init__`, and another one does its work in its place."""

    class Ours(Screen[None]):
        def __init__(self) -> None:
            super().__init__()
            assert type(self._compositor) is Compositor
            self._compositor = self.painted = ChangedWidgets()
            self.painted.paints = False

        def compose(self) -> ComposeResult:
            yield Static("words")

    app, screen = Shown(), Ours()
    async with app.run_test() as pilot:
        app.updates.clear()
        await app.push_screen(screen)
        await pilot.pause()
        assert not any(app.updates)
        screen.painted.paints = True
        screen.refresh()
        await pilot.pause()
        assert any(app.updates) and "words" in screen.painted.render_strips()[0].text


async def test_a_compositor_knows_what_changed() -> None:
    """`Compositor._dirty_regions`: where widgets asked to be painted since the last update."""
    app = Shown()
    async with app.run_test():
        compositor, below = app.screen._compositor, app.query_one("#below")
        compositor._dirty_regions.clear()
        below.refresh()
        compositor.update_widgets({below})
        assert compositor._dirty_regions == {below.region}
        compositor.render_partial_update()
        assert not compositor._dirty_regions


def test_it_is_five_names() -> None:
    assert len(PRIVATE_NAMES) + 1 <= 5  # a module and an attribute share one


# ---- what serves and shows pictures


def test_the_private_names_of_the_server_are_there() -> None:
    pytest.importorskip("textual_serve")
    from textual_serve.app_service import AppService
    from textual_serve.server import Server

    source = inspect.getsource(AppService)
    assert "await self._open_app_process(" in source, "a panel is not started by it any more"
    assert "self._process: " in source and "return self._stdin" in source
    assert inspect.iscoroutinefunction(Server._make_app)
    assert [*inspect.signature(Server._process_messages).parameters][1:] == [
        "websocket",
        "app_service",
    ]


def test_the_private_names_of_the_pictures_are_there() -> None:
    pytest.importorskip("textual_image")
    table = import_module("textual_image.renderable.tgp")._NUMBER_TO_DIACRITIC
    assert len(table) == 297 and table[:2] == [0x305, 0x30D]  # Kitty's rowcolumn-diacritics.txt
    assert callable(import_module("textual_image._terminal").get_cell_size)


# ---- no others


def _made_private(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@cache
def _names_of(library: ModuleType) -> frozenset[str]:
    """Every private name that a library's classes and modules have."""
    found: set[str] = set()
    for path in Path(library.__path__[0]).rglob("*.py"):
        found.update(_made_private(ast.parse(path.read_text())))
        found.update(part for part in path.with_suffix("").parts[-2:] if part.startswith("_"))
    return frozenset(name for name in found if name.startswith("_") and name[:2] != "__")


def _used(path: Path, own: frozenset[str]) -> set[str]:
    """Private names that a file reaches on others, and those of `own` bases that it takes over."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            ours = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not ours or node.attr in own:
                found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            found |= {getattr(one, "name", "") for one in node.body} & own
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
            found.update((node.module or "").split("."))
    return {name for name in found if name.startswith("_") and name[:2] != "__"}


@cache
def _of_bases() -> frozenset[str]:
    """What applications, screens, drivers and compositors of Textual have: ours are made of them."""
    found: set[str] = set()
    for name in ("app", "screen", "message_pump", "dom", "_compositor"):
        found.update(_made_private(ast.parse(inspect.getsource(import_module(f"textual.{name}")))))
    for name in ("linux_driver", "web_driver"):
        module = import_module(f"textual.drivers.{name}")
        found.update(_made_private(ast.parse(inspect.getsource(module))))
    found.update(_made_private(ast.parse(inspect.getsource(import_module("textual.driver")))))
    return frozenset(name for name in found if name.startswith("_") and name[:2] != "__")


_TERMINAL = sorted((REPOSITORY / "tui" / "panel" / "terminal").glob("*.py"))
_OWN_TOO = {"_app", "_line", "_screen", "_size", "_target"}
"""Names of our own that Textual's classes happen to have, in classes that are none of them."""


@pytest.mark.parametrize("path", _TERMINAL, ids=lambda path: path.stem)
def test_no_other_private_name_of_textual_is_used_for_the_terminal(path: Path) -> None:
    used = (_used(path, _of_bases()) & _names_of(textual)) - _PUBLIC_BY_FORM - _OWN_TOO
    assert used <= {*PRIVATE_NAMES} | OF_IMAGE, (
        "Textual changes its private names whenever it likes: do it by a public one, or give up "
        f"one of {', '.join(PRIVATE_NAMES)} for it (tui/panel/terminal/textual_private.py)"
    )


def test_no_private_name_is_used_anywhere_else_in_the_panel() -> None:
    found = {}
    for path in sorted((REPOSITORY / "tui" / "panel").rglob("*.py")):
        ours = {*_made_private(ast.parse(path.read_text()))}
        reached = (_used(path, frozenset()) & _names_of(textual)) - _PUBLIC_BY_FORM - ours
        if path not in _TERMINAL and reached:
            found[path.name] = reached
    assert not found


def test_the_browsers_panel_uses_no_others_of_the_server() -> None:
    import textual_serve

    used = set()
    for path in (REPOSITORY / "tui" / "web").glob("*.py"):
        used |= _used(path, _names_of(textual_serve)) & _names_of(textual_serve)
    assert used - _PUBLIC_BY_FORM == OF_SERVE
