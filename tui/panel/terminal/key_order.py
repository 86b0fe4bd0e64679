"""Keys act in the order in which they were typed, however fast they come.

Textual hands a key to what has the focus; one that is bound acts only when it has come up from
there to the application again. What is typed meanwhile goes to the old focus, and overtakes it: of
`Backspace 7 Tab 2`, sent in one packet of a slow line, the 7 was deleted and the 2 stood before the
Tab (Textual's issue 6605). So each key waits here until the one before has come up. What a key
leads to may take longer than that: whoever knows holds the next ones back until it is done. Nothing
of it goes by the clock: on a busy machine a key may take seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.widgets import Input


class InOrder(App[None]):
    """An application whose keys and pastes are handled one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key | events.Paste] = deque()
        self._is_under_way = False
        self.is_held = False
        """Whether keys wait for what they are for."""

    async def release_keys(self) -> None:
        """Let the keys act that have waited."""
        self.is_held = False
        await self._next_key()

    async def on_event(self, event: events.Event) -> None:
        """Keep what is typed until it is its turn."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            self._typed.append(event)
            if isinstance(event, events.Key) and event.key == "escape":
                self.is_held = False  # who leaves does not wait for what is to come
            await self._next_key()
        else:
            await super().on_event(event)

    async def _next_key(self) -> None:
        while self._typed and not self._is_under_way and not self.is_held:
            event = self._typed.popleft()
            target = self.focused or self.screen
            if isinstance(event, events.Paste) and isinstance(target, Input):
                # A line takes all that is pasted; Textual leaves out what is behind the first one.
                event.text = " ".join(filter(None, map(str.strip, event.text.splitlines())))
            await super().on_event(event)
            if event.is_forwarded:
                self._is_under_way = self._goes_on(target.ancestors_with_self)

    def _goes_on(self, way: Sequence[DOMNode]) -> bool:
        """Go behind a key from its target up to the application; False where it has come up.

        Each takes its messages one after the other, and those that it has before it closes: who
        refuses this one is closed, and hands no key up any more.
        """
        return any(
            node.call_later(self._follow, way[number:]) for number, node in enumerate(way, 1)
        )

    async def _follow(self, way: Sequence[DOMNode]) -> None:
        if not self._goes_on(way):
            self._is_under_way = False
            await self._next_key()


def hold_keys(app: App[Any]) -> None:
    """Let the next keys wait until `release_keys`: what they are for is not there yet.

    Whoever holds them releases them, at the latest when it is closed; Escape does so too.
    """
    if isinstance(app, InOrder):
        app.is_held = True


def release_keys(app: App[Any]) -> None:
    """Let the keys act that have waited, behind what is under way: a focus is a message too."""
    if isinstance(app, InOrder):
        app.call_later(app.release_keys)
