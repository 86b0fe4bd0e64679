"""Keys act in the order in which they were typed, however fast they come.

Textual hands a key to what has the focus; one that is bound acts only when it has come up from
there to the application again. What is typed meanwhile goes to the old focus, and overtakes it: of
`Backspace 7 Tab 2`, sent in one packet of a slow line, the 7 was deleted and the 2 stood before the
Tab (Textual's issue 6605). So each key waits here until the one before has come up. What a key
leads to may take longer than that: whoever knows holds the next ones back until it is done.
"""

from __future__ import annotations

from collections import deque

from textual import events, on
from textual.app import App
from textual.message import Message
from textual.timer import Timer

_COMES_UP_WITHIN_S = 0.5
"""Longer than any key takes: only one that was closed together with its target never comes."""
_HELD_AT_MOST_S = 3.0
"""Whatever goes wrong, keys act again."""


class InOrder(App[None]):
    """An application whose keys and pastes are handled one after the other."""

    class KeyDone(Message):
        """Follows a key up from its target: what reaches the application behind it is next."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key | events.Paste] = deque()
        self._keys = 0
        self._under_way: Timer | None = None
        self._held: Timer | None = None

    def hold_keys(self) -> None:
        """Let the next keys wait until `release_keys`: what they are for is not there yet."""
        if self._held is not None:
            self._held.stop()
        self._held = self.set_timer(_HELD_AT_MOST_S, self.release_keys)

    async def release_keys(self) -> None:
        """Let the keys act that have waited."""
        if self._held is not None:
            self._held.stop()
            self._held = None
        await self._next_key()

    async def on_event(self, event: events.Event) -> None:
        """Keep what is typed until it is its turn."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            self._typed.append(event)
            await self._next_key()
        else:
            await super().on_event(event)

    async def _next_key(self) -> None:
        while self._typed and self._under_way is None and self._held is None:
            event = self._typed.popleft()
            target = self.focused or self.screen
            await super().on_event(event)
            self._keys += 1
            if event.is_forwarded and target.post_message(self.KeyDone(self._keys)):
                self._under_way = self.set_timer(_COMES_UP_WITHIN_S, self._give_up)

    @on(KeyDone)
    async def _came_up(self, message: KeyDone) -> None:
        if message.number == self._keys:
            await self._give_up()

    async def _give_up(self) -> None:
        if self._under_way is not None:
            self._under_way.stop()
            self._under_way = None
        await self._next_key()
