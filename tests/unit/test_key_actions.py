"""Every key of the panel leads to an action that there is: Textual ignores one that there is not."""

import importlib
import pkgutil
from collections.abc import Iterator

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

import tui.panel
from tui.panel.app import PanelApp


def _kinds() -> Iterator[type[DOMNode]]:
    for module in pkgutil.walk_packages(tui.panel.__path__, "tui.panel."):
        importlib.import_module(module.name)
    waiting: list[type[DOMNode]] = [DOMNode]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("tui."):
            yield kind


def test_every_key_has_an_action() -> None:
    kinds = set(_kinds())
    screens = [kind for kind in kinds if issubclass(kind, Screen)]
    missing, seen = set(), 0
    for kind in kinds:
        for binding in vars(kind).get("BINDINGS", ()):
            if not isinstance(binding, Binding):
                continue
            seen += 1
            where, _, name = binding.action.partition("(")[0].rpartition(".")
            holders = {"app": [PanelApp], "screen": screens}.get(where, [kind])
            if not any(hasattr(holder, f"action_{name}") for holder in holders):
                missing.add((kind.__name__, binding.key, binding.action))
    assert seen > 100
    assert not missing
