"""The panel in a browser: who is refused, and the real thing over a real server, websocket and
browser.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from runners.host.identity import host_name
from runners.state.layout import StateDirectory
from tests.process.conftest import COMMAND, end_everything
from tests.screen_text import NO_RUNS, RUNS_HELP
from tests.served import Page, Served, until
from tests.support import CEILING_S, REPOSITORY, eventually
from tests.warm import COMMANDS

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

aiohttp = pytest.importorskip("aiohttp")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PRESET = """\
launcher: command
shell: true
command: "env; echo all said; sleep 600"
gpus: 0
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    presets = tmp_path / "config" / "fresnel-tui" / "presets"
    presets.mkdir(parents=True)
    (presets / "aa-env.yaml").write_text(PRESET)
    opened: list[Served] = []

    def open_it(*words: str) -> Served:
        opened.append(Served(*words))
        return opened[-1]

    yield open_it
    for served in opened:
        served.process.kill()
        served.process.communicate()
    end_everything(StateDirectory())


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return COMMANDS.run(
        [*COMMAND, *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=CEILING_S,
        check=False,
    )


async def test_the_address_that_was_printed_shows_the_panel_and_keys_reach_it(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    async with served.visitor() as client:
        async with client.get(f"{served.base}/") as answer:
            text = await answer.text()
            assert f'"ws://127.0.0.1:{served.port}{served.place}/ws"' in text
            assert "googleapis" not in text
            assert f"<title>fresnel-tui · {host_name()}</title>" in text
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        page = Page()
        async with served.socket(client) as socket:
            await until(socket, page, NO_RUNS)
            await socket.send_json(["stdin", "\x1b[200~\x1b[31mq\x1b[0m\x1bq\x1b[201~"])
            await socket.send_json(["stdin", "?"])
            await until(socket, page, RUNS_HELP)
            assert len(served.panels()) == 1, "nothing of a paste is a key"
    await asyncio.to_thread(
        eventually, lambda: not served.panels(), what="the panel gone with its page"
    )


async def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    async with aiohttp.ClientSession() as client, client.get(served.url) as answer:
        (cookie,) = answer.headers.getall("Set-Cookie")
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert served.token not in await answer.text()
        # Cookies know no ports: only the path keeps it from other users' servers on this machine.
        path = re.search(r"[Pp]ath=(/[\w-]{20,}/)", cookie)
        assert path and served.url.startswith(f"{served.origin}{path[1]}?")
        assert answer.headers["Referrer-Policy"] == "no-referrer"


REFUSALS: dict[str, tuple[str, dict[str, str], str]] = {
    "no token": ("/", {"Cookie": ""}, "open the address"),
    "no token for the parts of the page": (
        "/static/js/textual.js",
        {"Cookie": ""},
        "open the address",
    ),
    "a wrong token": ("/?token=wrong", {"Cookie": ""}, "token"),
    "a token that is not even ASCII": ("/?token=%C3%A9", {"Cookie": ""}, "token"),
    "a wrong cookie": ("/", {"Cookie": "fresnel-tui-{port}=wrong"}, "open the address"),
    "another name for this machine": ("/", {"Host": "evil.example"}, "does not name this server"),
    "another name, with our port": (
        "/?token={token}",
        {"Host": "evil.example:{port}"},
        "does not name this server",
    ),
    "a name that begins like ours": (
        "/",
        {"Host": "127.0.0.1.evil.example"},
        "does not name this server",
    ),
    "websocket without token": ("/ws", {"Cookie": "", "Origin": "{base}"}, "open the address"),
    "websocket of another page": ("/ws", {"Origin": "http://evil.example"}, "another origin"),
    "websocket of another server here": ("/ws", {"Origin": "http://127.0.0.1:1"}, "another origin"),
    "websocket of a sandboxed page": ("/ws", {"Origin": "null"}, "another origin"),
    "websocket of no page": ("/ws", {}, "another origin"),
    "half an address for a name": ("/", {"Host": "[::1"}, "does not name this server"),
    "half an address for an origin": ("/ws", {"Origin": "http://["}, "another origin"),
    "websocket through a name pointed here": (
        "/ws",
        {"Host": "evil.example", "Origin": "http://evil.example"},
        "does not name this server",
    ),
}


async def test_a_malformed_request_leaves_nothing_of_its_secrets_in_the_log(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"GET / HTTP/1.1\r\nCookie: {served.token}\x00\r\nBad Header\r\n\r\n".encode())
    await writer.drain()
    async with timeout(CEILING_S):
        await reader.read()
    writer.close()
    served.process.send_signal(signal.SIGINT)
    said = served.process.communicate(timeout=CEILING_S)[1]
    assert "serve: a request was refused" in said and served.token not in said
    assert "Traceback" not in said


async def test_everybody_else_is_refused_and_no_panel_starts(serve: Callable[..., Served]) -> None:
    served = serve()
    words = {"port": str(served.port), "token": served.token, "base": served.origin}
    for what, (path, headers, why) in REFUSALS.items():
        sent = {"Cookie": f"fresnel-tui-{served.port}={served.token}"} | headers
        if path == "/ws":
            sent |= {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            sent["Sec-WebSocket-Key"] = base64.b64encode(bytes(16)).decode()
        sent = {name: value.format(**words) for name, value in sent.items()}
        async with aiohttp.ClientSession() as client:
            url = served.base + path.format(**words)
            async with client.get(url, headers=sent) as answer:
                assert answer.status == 403, what
                assert why in await answer.text(), what
                assert "Set-Cookie" not in answer.headers, what
    assert not served.panels()


async def test_through_a_tunnel_from_another_port_the_page_finds_its_parts(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    there = "localhost:9999"
    async with served.visitor() as client:
        async with client.get(f"{served.base}/", headers={"Host": there}) as answer:
            assert f'"ws://{there}{served.place}/ws"' in await answer.text()
        async with served.socket(client, Host=there, Origin=f"http://{there}") as socket:
            await until(socket, Page(), NO_RUNS)


async def test_nonsense_on_the_websocket_ends_the_page_and_not_the_server(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    async with served.visitor() as client:
        for nonsense in ("no json", "{}", "[]", '["resize", 3]', '["stdin", null]'):
            async with served.socket(client) as socket:
                await until(socket, Page(), NO_RUNS)
                await socket.send_str(nonsense)
                async with timeout(CEILING_S):
                    while (await socket.receive()).type not in (
                        aiohttp.WSMsgType.CLOSE,
                        aiohttp.WSMsgType.CLOSED,
                    ):
                        pass
        async with served.socket(client) as socket:
            await until(socket, Page(), NO_RUNS)


async def test_read_only_is_passed_on(serve: Callable[..., Served]) -> None:
    served = serve("--read-only")
    async with served.visitor() as client, served.socket(client) as socket:
        await until(socket, Page(), "(?i)read-only")
    (panel,) = [words for words in map(_command_line, served.panels()) if words] or [[]]
    assert not panel or "--read-only" in panel


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


async def test_a_run_launched_here_knows_nothing_of_the_page_and_outlives_the_server(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    page = Page()
    async with served.visitor() as client, served.socket(client) as socket:
        await until(socket, page, NO_RUNS)
        await socket.send_json(["stdin", "n"])
        await until(socket, page, "aa-env(.|\n)*Plan: exactly what runs")
        await socket.send_json(["stdin", "\x1bOQ"])
        await until(socket, page, r"▶ running\s+aa-env(.|\n)*all said")
        panels = served.panels()
        served.process.kill()
        await asyncio.to_thread(
            eventually, lambda: not any(map(_is_alive, panels)), what="the panel gone"
        )
    (launched,) = json.loads(run("list", "--json").stdout)
    assert launched["state"] == "running"
    said = (Path(launched["directory"]) / "output.log").read_text()
    assert not re.findall(r"^(COLUMNS|ROWS|TEXTUAL\w*)=.*", said, re.MULTILINE)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_ends_the_server_and_its_panels(
    serve: Callable[..., Served], how: signal.Signals
) -> None:
    served = serve()
    async with served.visitor() as client, served.socket(client) as socket:
        await until(socket, Page(), NO_RUNS)
        panels = served.panels()
        served.process.send_signal(how)
        assert await asyncio.to_thread(served.process.wait, CEILING_S) == 0
    assert not any(map(_is_alive, panels))


def test_what_it_says(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.process.stderr is not None
    words = "".join(iter(served.process.stderr.readline, "Ctrl+C ends the panel; runs go on.\n"))
    assert f"ssh -L {served.port}:127.0.0.1:{served.port} " in words
    assert served.token not in words


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "some.example"])
def test_the_network_is_not_let_in_by_mistake(host: str) -> None:
    refused = run("serve", "--host", host, "--port", "0")
    assert refused.returncode == 2
    assert (
        "no TLS" in refused.stderr
        and "ssh -L" in refused.stderr
        and "--without-tls" in refused.stderr
    )


async def test_let_in_on_purpose_it_still_asks_for_the_token_and_its_name(
    serve: Callable[..., Served],
) -> None:
    served = serve("--host", "0.0.0.0", "--without-tls")
    async with served.visitor() as client:
        for host, status in (("192.0.2.7:8811", 200), ("evil.example", 403)):
            async with client.get(f"{served.base}/", headers={"Host": host}) as answer:
                assert answer.status == status
    async with aiohttp.ClientSession() as stranger, stranger.get(served.base) as answer:
        assert answer.status == 403


@pytest.mark.parametrize(
    "words", [["--port", "99999"], ["--host", "no.such.host.invalid", "--without-tls"]]
)
def test_a_place_where_nobody_can_listen_is_one_clear_error(words: list[str]) -> None:
    refused = run("serve", *words)
    assert refused.returncode == 2
    told = [line for line in refused.stderr.splitlines() if line.startswith("fresnel-tui: ")]
    assert len(told) == 1 and "Traceback" not in refused.stderr


def test_a_port_that_is_taken_is_one_clear_error(serve: Callable[..., Served]) -> None:
    refused = run("serve", "--port", str(serve().port))
    assert (
        refused.returncode == 2
        and "cannot listen" in refused.stderr
        and "--port 0" in refused.stderr
    )


# ── a real browser ────────────────────────────────────────────────────────────────────────────────


class Browser:
    """Chromium without a window, through its DevTools protocol."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.page = Page()
        self.number = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": parameters})
        while True:
            message = await self.take()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    async def take(self) -> Any:
        message = await self.socket.receive_json(timeout=CEILING_S)
        if message.get("method") == "Network.webSocketFrameReceived":
            frame = message["params"]["response"]
            if frame["opcode"] == 2:
                self.page.feed(base64.b64decode(frame["payloadData"]))
        return message

    async def until(self, true: Callable[[], Awaitable[bool]]) -> None:
        async with timeout(CEILING_S):
            while not await true():
                pass

    async def shows(self, pattern: str) -> None:
        async with timeout(CEILING_S):
            while not re.search(pattern, self.page.text):
                await self.take()

    async def picture(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])

    async def press(self, key: str) -> None:
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Browser]:
    assert BROWSER is not None
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]
    process = subprocess.Popen(
        [BROWSER, *flags, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        noted = folder / "DevToolsActivePort"
        port = await asyncio.to_thread(
            eventually, lambda: noted.exists() and noted.read_text().partition("\n")[0]
        )
        async with aiohttp.ClientSession() as client:
            async with client.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
                opened = await answer.json()
            async with client.ws_connect(opened["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Browser(socket)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
async def test_a_real_browser_shows_the_panel_and_a_key_without_a_click_reaches_it(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve()
    async with browser(tmp_path / "profile") as window:
        for domain in ("Network", "Page", "Runtime"):
            await window.call(f"{domain}.enable")
        await window.call("Page.navigate", url=served.url)
        await window.shows(NO_RUNS)
        address = await window.call(
            "Runtime.evaluate", expression="location.href + '|' + document.cookie"
        )
        assert address["result"]["value"] == f"{served.base}/|"  # the token is out of sight
        focus = "document.activeElement.className"

        async def has_focus() -> bool:
            return (
                "xterm"
                in (await window.call("Runtime.evaluate", expression=focus))["result"]["value"]
            )

        await window.until(has_focus)
        before = await window.picture()
        await window.press("?")
        await window.shows(RUNS_HELP)

        async def looks_otherwise() -> bool:
            return await window.picture() != before

        await window.until(looks_otherwise)
        await window.press("q")
