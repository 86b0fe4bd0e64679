"""Private names of Textual and textual-serve: where they are used, and that they exist."""

import ast
from importlib.metadata import version

import pytest
from textual._compositor import ChopsUpdate, Compositor
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.screen import Screen
from textual.widget import Widget

from tests.support import REPOSITORY
from tui.panel.app import PanelApp

ALLOWED = ("tui/panel/terminal/", "tui/web/")
LOOKED_AT = {"textual": "8.2.8", "textual-image": "0.12.0", "textual-serve": "1.1.3"}
"""The versions for which every use in `ALLOWED` was looked at."""


@pytest.mark.parametrize("name", LOOKED_AT)
def test_the_version_is_the_one_whose_private_names_were_looked_at(name: str) -> None:
    assert version(name) == LOOKED_AT[name], (
        f"{name} is another version: look at each private name used in {', '.join(ALLOWED)}, "
        "then write its version here"
    )


async def test_the_private_names_are_there() -> None:
    assert isinstance(App._background_screens, property)
    assert callable(App._check_bindings) and callable(App._display)
    assert callable(Screen._compositor_refresh) and callable(ChopsUpdate.render_segments)
    assert {"_border_title", "_border_subtitle"} <= vars(Widget()).keys() | vars(Widget).keys()
    assert hasattr(Screen(), "_dirty_widgets")
    compositor = Screen()._compositor
    assert type(compositor) is Compositor and isinstance(compositor._dirty_regions, set)
    assert callable(compositor._get_renders) and callable(compositor.render_partial_update)
    assert callable(XTermParser.feed) and callable(XTermParser.tick)
    app = App[None]()
    assert hasattr(app, "_driver") and isinstance(app._filters, list)
    for name in ("_disable_mouse_support", "_enable_mouse_support", "_sigcont_application"):
        assert callable(getattr(LinuxDriver, name)), name
    driver = LinuxDriver(app)
    for name in ("_mouse", "_must_signal_resume", "_auto_restart", "_writer_thread", "_loop"):
        assert hasattr(driver, name), name
    assert callable(WebDriver.run_input_thread)


def test_the_private_names_of_the_server_are_there() -> None:
    pytest.importorskip("textual_serve")
    from textual_serve.app_service import AppService
    from textual_serve.server import Server

    for name in ("_open_app_process", "_build_environment"):
        assert callable(getattr(AppService, name)), name
    for name in ("_make_app", "_process_messages"):
        assert callable(getattr(Server, name)), name


def _private_of_others(tree: ast.AST) -> set[str]:
    """Private attributes reached on anything but `self`, and those of Textual's that are set."""
    found = set()
    of_textual = {name for name in dir(App) if name.startswith("_") and not name.startswith("__")}
    of_textual |= {"_filters", "_driver"}
    ours = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if node.attr.startswith("__") or node.attr in ("_replace", "_asdict", "_fields"):
            continue
        if isinstance(node.value, ast.Name) and node.value.id == "os":
            continue
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if node.attr not in ours and (not own or node.attr in of_textual):
            found.add(node.attr)
    return found


def test_private_names_are_used_in_two_places_only() -> None:
    found = {}
    for path in sorted((REPOSITORY / "tui" / "panel").rglob("*.py")):
        name = str(path.relative_to(REPOSITORY))
        if not name.startswith(ALLOWED) and (
            bad := _private_of_others(ast.parse(path.read_text()))
        ):
            found[name] = bad
    assert not found
    assert PanelApp.__mro__[1].__module__.startswith("tui.panel.terminal.")
