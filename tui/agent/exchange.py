"""One request of the other end, and the way its answers go back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import find_run


class Exchange:
    """A request with its `number` and `fields`, answered with any number of messages."""

    def __init__(
        self,
        state: StateDirectory,
        number: int,
        fields: dict[str, Any],
        write: Callable[[dict[str, Any], bytes], Awaitable[None]],
    ) -> None:
        self.state = state
        self.number = number
        self.fields = fields
        self._write = write
        self._sent = self._taken = 0
        self._acknowledged = asyncio.Event()

    async def send(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Send one message."""
        await self._write({"id": self.number, **fields}, payload)
        self._sent += len(payload)

    async def answer(self, value: object) -> None:
        """Send the one answer to a plain question."""
        await self.send({"answer": value})

    def acknowledge(self, count: int) -> None:
        """Note that the other end took `count` bytes of the payloads."""
        self._taken += count
        self._acknowledged.set()

    async def wait_for_room(self, window: int) -> None:
        """Wait until fewer than `window` bytes of payload are on the way."""
        while self._sent - self._taken >= window:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    def find_run(self) -> Run:
        """The run that the request names; NotFound for none."""
        return find_run(self.state, str(self.fields["run"]))
