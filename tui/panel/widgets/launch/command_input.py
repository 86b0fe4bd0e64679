"""The command line of the launch form: as many lines as it takes, earlier ones, and paths."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from runners.host.bounded_glob import SearchBudget, entries_of, is_folder_entry
from runners.host.files import expanded
from tui.panel.hotkeys import hotkey

KEYS = "↑ ↓ earlier commands · → takes the grey text · Tab completes a path · Ctrl+J new line"
_LOOK_S = 1.0
"""So long a key waits for a folder on a disk that hangs; the next one asks again."""


class CommandInput(TextArea):
    """A command to type, wrapped where it is long. Keys as in a shell; Enter goes on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("enter", "app.focus_next", "the next field"),
        hotkey("ctrl+j", "new_line", "a new line in the command"),
    ]

    class PathsFound(Message):
        """What was typed goes on in several ways."""

        def __init__(self, names: Sequence[str]) -> None:
            super().__init__()
            self.names = names

    def __init__(
        self, text: str, placeholder: str, past: Sequence[str], folder: Callable[[], Path | None]
    ) -> None:
        """`past` are earlier commands, the newest first; `folder` is where paths begin."""
        super().__init__(text, compact=True, highlight_cursor_line=False, placeholder=placeholder)
        self._first = text
        self._past = past
        self._folder = folder
        self._at = -1
        """Which of the earlier commands stands there; -1: what was typed."""
        self._typed = ""
        self._shown_for = ""
        """What stood there when the ways to go on were shown: Tab then goes on to the next."""

    @property
    def value(self) -> str:
        """What stands in it."""
        return self.text

    @value.setter
    def value(self, text: str) -> None:
        self.replace(text, self.document.start, self.document.end)
        self.move_cursor(self.document.end)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Rows of it; blank ones while nothing is known to be behind it, as it is removed.

        Textual takes the theme's surface then, whose name rich does not know where it is the
        terminal's own.
        """
        if self.rich_style.bgcolor is None:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def on_focus(self) -> None:
        """As in a line: what stood there from the beginning is replaced by what is typed."""
        if self.text == self._first:
            self.select_all()
        else:
            self.move_cursor(self.document.end)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave F6 and F7 to the form."""
        return action not in ("select_line", "select_all")

    def action_new_line(self) -> None:
        self.insert("\n")

    # ---- earlier commands

    def action_cursor_up(self, select: bool = False) -> None:
        """The line above; from the first one the command before, as in a shell."""
        is_first = self.navigator.is_first_wrapped_line(self.cursor_location)
        if select or (not is_first and self._stands() < 0):
            super().action_cursor_up(select)
        elif not self._past:
            self.screen.focus_previous()
        else:
            self._earlier()

    def action_cursor_down(self, select: bool = False) -> None:
        """The line below; from the last one the command after, then the next field."""
        is_last = self.navigator.is_last_wrapped_line(self.cursor_location)
        if select or (not is_last and self._stands() < 0):
            super().action_cursor_down(select)
        elif self._stands() < 0:
            self.screen.focus_next()
        else:
            self._at -= 1
            self.value = self._past[self._at] if self._at >= 0 else self._typed

    def _stands(self) -> int:
        """Which of the earlier commands stands there as it was; -1 of one that was changed."""
        if self._at >= 0 and self.text != self._past[self._at]:
            self._at = -1
        return self._at

    def _earlier(self) -> None:
        if self._stands() < 0:
            self._typed = self.text
        others = range(self._at + 1, len(self._past))
        found = next((at for at in others if self._past[at] != self.text), None)
        if found is not None:
            self._at = found
            self.value = self._past[found]

    def update_suggestion(self) -> None:
        """Show how the newest command went on that began like this one."""
        text, rest = self.text, ""
        if text.strip() and self.cursor_location == self.document.end:
            rest = next((past[len(text) :] for past in self._past if past.startswith(text)), "")
        self.suggestion = "" if "\n" in rest else rest

    def watch_selection(self) -> None:
        """The grey text goes on where the command ends, and nowhere else."""
        self.update_suggestion()

    # ---- keys that the text area would take for itself

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.prevent_default()  # it goes up to the binding
        elif event.key == "tab" and await self._complete():
            event.stop()
            event.prevent_default()

    async def _complete(self) -> bool:
        """Complete the path before the cursor, or show how it may go on; whether there was one."""
        folder, text = self._folder(), self.text
        if folder is None or text == self._shown_for:
            return False
        before = self.get_text_range(self.document.start, self.cursor_location)
        looking = asyncio.to_thread(complete_path, before, folder)
        try:
            found = await asyncio.wait_for(looking, _LOOK_S)
        except asyncio.TimeoutError:
            # What is typed next is the path's, not the next field's.
            return True
        except OSError:
            return False
        return self._take(found)

    def _take(self, found: PathCompletion) -> bool:
        if found.rest:
            self.insert(found.rest)
        elif len(found.names) < 2:
            return False
        if len(found.names) > 1:
            self._shown_for = self.text
            self.post_message(self.PathsFound(found.names))
        return True


_WORD = re.compile(r"(?:^|[\s=:;|&<>()'\"])((?:\\.|[^\s=:;|&<>()'\"\\])+)$")
_SPECIAL = re.compile(r"([^\w./:=,+@%~-])")
_MOST = 5000
"""Entries of a folder that are looked at."""


class PathCompletion(NamedTuple):
    """What can be added to what was typed, and the names that would go on from there."""

    rest: str
    names: tuple[str, ...]


def complete_path(before: str, folder: Path) -> PathCompletion:
    """How the path goes on that ends `before`, relative to `folder`.

    The first word is a program, and completed only where it has a slash.
    """
    found = _WORD.search(before)
    if found is None or (not before[: found.start(1)].strip() and "/" not in found[1]):
        return PathCompletion("", ())
    typed = re.sub(r"\\(.)", r"\1", found[1])
    head, _, part = typed.rpartition("/")
    where = folder / expanded(f"{head}/" if head or typed.startswith("/") else ".")
    names = _names(where, part)
    rest = _in_common(names)[len(part) :]
    return PathCompletion(_SPECIAL.sub(r"\\\1", rest), names)


def _in_common(names: tuple[str, ...]) -> str:
    """What all of them begin with; they are sorted, so the first and the last decide."""
    if not names:
        return ""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(names[0], names[-1], strict=False))
    return "".join(first for first, _ in pairs)


def _names(folder: Path, part: str) -> tuple[str, ...]:
    """The entries of `folder` that begin so, by name; those of a folder end with a slash."""
    budget = SearchBudget(_MOST)
    if not budget.may_enter(str(folder)):
        return ()
    found = [
        f"{entry.name}/" if is_folder_entry(entry, budget) else entry.name
        for entry in entries_of(str(folder), budget)
        if entry.name.startswith(part)
        # As in a shell: what begins with a dot is shown to whoever types the dot.
        and (part.startswith(".") or not entry.name.startswith("."))
    ]
    return tuple(sorted(found))
