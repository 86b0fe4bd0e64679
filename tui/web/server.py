"""textual-serve with access checks, and panels that end when their page closes."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import Any

from aiohttp import WSCloseCode, web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from runners.host.identity import host_name
from tui.views.safe import PastedText
from tui.web.auth import TokenAuth

_HEARTBEAT_S = 15
_PATIENCE_S = 3.0
_LEAST, _MOST = 20, 1000
"""Columns or rows that a page may ask for."""
_FOREIGN_FONT = re.compile(r"<link\s[^>]*https://fonts[^>]*>")
# Keys go to the panel from the start, without a click.
_FOCUS = """<script>
new MutationObserver((_, observer) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) { keys.focus(); observer.disconnect(); }
}).observe(document.body, {childList: true, subtree: true});
</script></body>"""


_FOR_A_PAGE = {
    "TEXTUAL_DRIVER": "tui.web.driver:BrowserDriver",
    "TEXTUAL_COLOR_SYSTEM": "truecolor",
    "TEXTUAL_FPS": "60",
    "TERM_PROGRAM": "textual",
}


class PanelProcess(AppService):
    """One panel for one page, started without a shell, and surely gone with the page."""

    def __init__(self, command: Sequence[str], **connection: Any) -> None:
        super().__init__("", **connection)
        self._command = command
        self._pasted = PastedText()

    async def send_bytes(self, data: bytes) -> bool:
        """Send what was typed or pasted in the page; of a paste only its text."""
        text = self._pasted.cleaned(data.decode("utf-8", "replace"))
        return not text or await super().send_bytes(text.encode())

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # A session of its own: Ctrl+C at the server is not a key pressed in the panel.
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=os.environ | _FOR_A_PAGE | {"COLUMNS": str(width), "ROWS": str(height)},
            start_new_session=True,
        )
        self._stdin = self._process.stdin
        return self._process

    async def end(self) -> None:
        """Ask the panel to quit, as its own key does; end it when it does not."""
        with suppress(asyncio.TimeoutError, ConnectionError):
            await asyncio.wait_for(self.stop(), _PATIENCE_S)
        process = self._process
        if process is None:
            return
        for signum in (0, signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                process.send_signal(signum)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), _PATIENCE_S)
                return


class PanelServer(Server):
    """The panel for browsers; `words` start it."""

    def __init__(self, command: Sequence[str], doors: TokenAuth) -> None:
        super().__init__("", title="fresnel-tui")
        self._command = command
        self._doors = doors
        self._sockets: set[web.WebSocketResponse] = set()

    async def application(self) -> web.Application:
        """What listens: textual-serve's routes behind the doors."""
        pages = await self._make_app()
        application = web.Application(middlewares=[self._doors.middleware])
        application.add_subapp(self._doors.place, pages)
        application.on_response_prepare.append(self._doors.add_security_headers)
        return application

    async def on_startup(self, app: web.Application) -> None:
        """Nothing to say here: the command has said it."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Close every page; its panel ends with it."""
        for socket in list(self._sockets):
            await socket.close(code=WSCloseCode.GOING_AWAY)

    async def handle_index(self, request: web.Request) -> Any:
        """The page, with links relative to the port it was asked at: `ssh -L` may use any."""
        self.public_url = f"http://{request.host}"
        page = await super().handle_index(request)
        assert isinstance(page, web.Response) and page.text is not None
        title = f"<head><title>fresnel-tui · {escape(host_name())}</title>"
        text = page.text.replace("<head>", title, 1).replace("</body>", _FOCUS)
        page.text = _FOREIGN_FONT.sub("", text)
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A panel for as long as the page is open."""
        socket = web.WebSocketResponse(heartbeat=_HEARTBEAT_S)
        await socket.prepare(request)
        self._sockets.add(socket)
        panel = PanelProcess(
            self._command,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=socket.close,
            download_manager=self.download_manager,
        )
        width, height = (
            min(max(to_int(request.query.get(name, ""), 80), _LEAST), _MOST)
            for name in ("width", "height")
        )
        try:
            await panel.start(width, height)
            await self._process_messages(socket, panel)
        except (ValueError, TypeError, LookupError, AttributeError, AssertionError):
            await socket.close(code=WSCloseCode.UNSUPPORTED_DATA)  # not what our page would send
        finally:
            self._sockets.discard(socket)
            await panel.end()
        return socket
