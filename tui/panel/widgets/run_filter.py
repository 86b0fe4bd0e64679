"""Typing a filter into the run table: which keys it takes, and what they make of its text."""

from collections.abc import Callable

from textual import events

from tui.views.runs.run_query import RunQuery, parse_query

_EDITING: dict[str, Callable[[str], str]] = {
    "backspace": lambda text: text[:-1],
    "ctrl+h": lambda text: text[:-1],
    "ctrl+w": lambda text: text.rstrip().rpartition(" ")[0],
    "ctrl+u": lambda _: "",
    "escape": lambda _: "",
    "enter": lambda text: text,
}
_KEPT = 20
"""So many earlier filters are one or more ↑ away."""
_LEADING_AWAY = frozenset({"1", "3", "l", "tab", "shift+tab"})


class FilterTyping:
    """The filter's text, and whether it is being typed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after every change of either."""
        self.text = ""
        self.active = False
        self._before: list[str] = []
        self._place: int | None = None
        self._leaving = False
        self._changed = changed

    def query(self, now: float) -> RunQuery:
        """The filter as a query; `now` is what ages in it are counted from."""
        return parse_query(self.text, now, typing=self.active) if self.text else RunQuery("")

    def begin(self) -> None:
        """Take the keys from now on; what was typed before is one ↑ away."""
        self.active = True
        self._place = None
        self.text = ""
        self._changed()

    def end(self, text: str) -> None:
        """Leave the keys to the table; the filter is `text`."""
        self.active = False
        self.text = text.strip()
        if self.text:
            others = [text for text in self._before if text != self.text]
            self._before = [*others[-_KEPT:], self.text]
        self._changed()

    def on_key(self, event: events.Key) -> None:
        """Take a key that is for the filter; it goes no further then."""
        if not self.active:
            # The binding of `/` would run too late: what is typed behind it may be here by then.
            # After a key that leads to another pane, `/` is meant for that pane.
            self._leaving = self._leaving or event.key in _LEADING_AWAY
            if event.key != "slash" or self._leaving:
                return
            self.begin()
        elif event.key in ("enter", "escape"):
            self.end(_EDITING[event.key](self.text))
        elif event.key in ("up", "down"):
            self._recall(-1 if event.key == "up" else 1)
        elif event.key in _EDITING:
            self._edit(_EDITING[event.key](self.text))
        elif event.is_printable and event.character:
            self._edit(self.text + event.character)
        else:
            return
        # A letter that was typed must not also be a key of the pane or the screen.
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        if self.active:
            self._edit(self.text + " ".join(event.text.split()))
            event.stop()

    def on_blur(self) -> None:
        """Leaving the pane ends the typing; the filter stays."""
        self._leaving = False
        if self.active:
            self.end(self.text)

    def _recall(self, by: int) -> None:
        """An earlier filter, or a later one; after the newest nothing."""
        if not self._before:
            return
        place = len(self._before) if self._place is None else self._place
        self._place = min(len(self._before), max(0, place + by))
        self._edit("".join(self._before[self._place : self._place + 1]))

    def _edit(self, text: str) -> None:
        self.text = text
        self._changed()
