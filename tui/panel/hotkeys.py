"""Keys of the panel: each said once, for the footer, for hovering over it and for the help page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.keys import format_key
from textual.widget import Widget

_NAMES = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "escape": "Esc",
    "enter": "Enter",
}


def hotkey(
    keys: str,
    action: str,
    explanation: str,
    footer: str = "",
    display: str | None = None,
    priority: bool = False,
) -> Binding:
    """A binding of one or more keys.
    `explanation`: what they do, for the help page, where keys with the same text share a line;
    `footer`: in a word or two, where it is among the hints, the most needed first.
    """
    return Binding(
        keys,
        action,
        footer or explanation,
        show=bool(footer),
        key_display=display,
        priority=priority,
        tooltip=explanation,
    )


def paging_keys(down: str = "pagedown,space,ctrl+f") -> list[BindingType]:
    """The keys of `action_page`, which takes a number of screens, downwards; `down`: one screen."""
    page, half = "a screen down or up", "half a screen down or up"
    return [
        hotkey(down, "page(1)", page),
        hotkey("pageup,ctrl+b", "page(-1)", page),
        hotkey("ctrl+d", "page(0.5)", half),
        hotkey("ctrl+u", "page(-0.5)", half),
    ]


def key_lines(bindings: Iterable[BindingType]) -> list[tuple[str, str]]:
    """The lines of the help page: keys as people read them, and what they do."""
    lines: dict[str, list[str]] = {}
    for binding in bindings:
        if isinstance(binding, Binding) and binding.tooltip:
            keys = lines.setdefault(binding.tooltip, [])
            names = [key_name(key) for key in binding.key.split(",")]
            keys += [name for name in names if name not in keys]
    return [(" ".join(keys), explanation) for explanation, keys in lines.items()]


def key_hints(bindings: Iterable[BindingType]) -> list[tuple[str, str]]:
    """The keys that are among the hints of a page, and what they do in a word or two."""
    return [
        (binding.key_display or key_name(binding.key.split(",")[0]), binding.description)
        for binding in bindings
        if isinstance(binding, Binding) and binding.show
    ]


class HintLine(Widget):
    """The hints in one line: a narrow terminal shows as many as it has room for, and the last."""

    def __init__(self, bindings: Iterable[BindingType]) -> None:
        super().__init__()
        self._hints = key_hints(bindings)

    def render(self) -> Text:
        *hints, last = [
            Text.assemble((f" {key} ", "bold"), (f"{meaning} ", "dim"), no_wrap=True)
            for key, meaning in self._hints
        ]
        room = self.size.width - last.cell_len
        widths = accumulate(hint.cell_len for hint in hints)
        shown = [hint for hint, width in zip(hints, widths, strict=True) if width <= room]
        return Text("", no_wrap=True).join([*shown, last])


class HintRows(Widget):
    """Hints one after the other in as many rows as they take; none is broken in two."""

    DEFAULT_CSS = "HintRows { height: auto; }"

    def __init__(self, hints: Iterable[tuple[str, str]], *, id: str, classes: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self._hints = [Text.assemble((key, "bold"), f" {meaning}") for key, meaning in hints]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def _rows(self, width: int) -> list[Text]:
        rows: list[Text] = []
        for hint in self._hints:
            if rows and rows[-1].cell_len + len(_BETWEEN) + hint.cell_len <= width:
                rows[-1].append(_BETWEEN).append_text(hint)
            else:
                rows.append(hint.copy())
        return rows

    def render(self) -> Text:
        return Text("\n").join(self._rows(self.size.width))


_BETWEEN = " · "


def key_meaning(bindings: Iterable[BindingType], key: str) -> str:
    """What a key does by these bindings; empty when it does nothing, or nobody is told."""
    return next((binding.tooltip or "" for binding in _bound(bindings, key)), "")


def acts_itself(widget: Widget | None, key: str) -> bool:
    """Whether a key is bound to an action of the widget's own, not to one of its screen or app."""
    own = (vars(kind).get("BINDINGS", ()) for kind in type(widget).__mro__)
    return any("." not in binding.action for some in own for binding in _bound(some, key))


def _bound(bindings: Iterable[BindingType], key: str) -> Iterator[Binding]:
    for binding in bindings:
        if isinstance(binding, Binding) and key in binding.key.split(","):
            yield binding


def key_name(key: str) -> str:
    """A key as people read it: `Ctrl+P`, `PgUp`, `/`."""
    *modifiers, last = key.split("+")
    name = _NAMES.get(last) or format_key(last)
    if len(name) > 1:
        name = name[0].upper() + name[1:]
    elif modifiers:
        name = name.upper()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])
