"""The panel in a browser, as a page has it: a real server, its websocket, and what is drawn."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pyte
import pytest

from tests.process.conftest import COMMAND
from tests.support import CEILING_S, REPOSITORY

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")

COLUMNS, ROWS = 100, 30


class Served:
    """A server, and what it printed."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0", "--json", *words],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.port, self.token, self.url = said["port"], said["token"], said["url"]
        self.base = self.url.partition("?")[0].rstrip("/")
        self.place = "/" + self.base.rpartition("/")[2]
        self.origin = f"http://127.0.0.1:{self.port}"

    def panels(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator[Any]:
        """A client that has opened the printed address, and so has the cookie."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            async with client.get(f"{self.base}/?token={self.token}") as answer:
                assert answer.status == 200
            yield client

    def socket(self, client: Any, size: tuple[int, int] = (COLUMNS, ROWS), **headers: str) -> Any:
        """The websocket as our own page of this size opens it."""
        place = f"{self.base}/ws?width={size[0]}&height={size[1]}"
        return client.ws_connect(place, headers={"Origin": self.origin, **headers})


class Page:
    """The terminal that a page draws, from the frames of its websocket."""

    def __init__(self, columns: int = COLUMNS, rows: int = ROWS) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)

    def feed(self, frame: bytes) -> None:
        self.stream.feed(re.sub(rb"\x1b\[[<>=?][0-9;]*[$a-zA-Z]+", b"", frame))

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)


async def until(socket: Any, page: Page, pattern: str) -> None:
    """Draw what comes until the pattern is on the screen."""
    async with timeout(CEILING_S):
        while not re.search(pattern, page.text):
            message = await socket.receive()
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), page.text
            if message.type is aiohttp.WSMsgType.BINARY:
                page.feed(message.data)
