"""The agent: answers requests, follows output, sends snapshots by difference.

It owns nothing: runs, queue and guard are their supervisors' and the guard's. When its line breaks
it leaves, and so do the commands it was asked to read with.
"""

import asyncio
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any

from runners import __version__
from runners.host.files import expanded, home_folder
from runners.host.helpers import ROOT
from runners.host.identity import host_name, user_name
from runners.model.errors import FresnelError
from runners.places.ssh.panel_source import installed_digest
from runners.places.ssh.protocol import MessageReader, pack
from runners.state.layout import StateDirectory
from tui.agent.exchange import Exchange

BEAT_S = 12.0
"""A line on which nothing else was said for so long is told that it stands."""
_BLOCK = 1 << 16
_MOST_COMMANDS = 8
_LAID_OUT = ("watch", "older", "curves")
"""What is answered with structs, of which both ends must know the same fields."""
_RUN = """\
import json, os, sys
sys.argv += json.load(sys.stdin)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
sys.path[0] = {0!r}
from tui.__main__ import main
main()
"""
"""A command, whose words come on stdin: argv is for everybody on a machine to read."""

_HANDLERS = {
    "ask": "answers:send_answer",
    "curves": "curve_sender:send_curves",
    "end": "end_notice:end_run",
    "ending": "end_notice:send_ending",
    "follow": "follow:follow_output",
    "listen": "meeting:listen",
    "older": "answers:send_older",
    "quiet": "end_notice:send_quiet",
    "reach": "meeting:reach",
    "watch": "snapshots:send_snapshots",
}
"""FILE:FUNCTION of `tui.agent` for each request, imported on use: snapshots need much."""


def serve(line: int) -> int:
    """Serve on stdin and the descriptor `line` until stdin ends; 0."""
    with suppress(BrokenPipeError, KeyboardInterrupt):
        asyncio.run(Agent(line).run())
    os._exit(0)  # a write may hang on a line that is dead


class Agent:
    """One link's other end."""

    def __init__(self, line: int) -> None:
        self.state = StateDirectory()
        self._line = line
        # A thread of its own: a write to a line that is dead blocks, and the loop has to see stdin
        # end.
        self._writer = ThreadPoolExecutor(1, "line")
        # Several requests are answered at once: no message may begin inside another.
        self._order = asyncio.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._kept: set[int] = set()
        self._exchanges: dict[int, Exchange] = {}
        self._wrote_at = 0.0
        self._slots = asyncio.Semaphore(_MOST_COMMANDS)

    async def run(self) -> None:
        """Until stdin ends."""
        loop = asyncio.get_running_loop()
        stream = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), sys.stdin)
        beats = asyncio.create_task(self._beat())
        reader = MessageReader()
        while data := await stream.read(_BLOCK):
            for frame in reader.feed(data):
                self._accept(frame.fields)
        beats.cancel()
        # Nobody is left to read what these print.
        for number, child in self._children.items():
            if number not in self._kept:
                with suppress(ProcessLookupError):
                    child.send_signal(signal.SIGTERM)
        # Those that were asked for in the last bytes of the line too: a launch is not broken off.
        kept = [task for number, task in self._tasks.items() if number in self._kept]
        await asyncio.gather(*kept, return_exceptions=True)

    async def send(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Write one message, after those before it; the process ends when nobody reads."""
        data = pack(fields, payload)
        async with self._order:
            self._wrote_at = time.monotonic()
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._write, data)
            except OSError:
                # A launch that was asked for is finished, though nobody hears of it.
                if not self._kept & self._tasks.keys():
                    os._exit(0)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._line, view) :]

    async def _beat(self) -> None:
        while True:
            left = self._wrote_at + BEAT_S - time.monotonic()
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self.send({"beat": 1})

    def _accept(self, request: dict[str, Any]) -> None:
        number, what = request.get("id"), request.get("do")
        if not isinstance(number, int):
            return
        if what == "ack":
            if number in self._exchanges:
                self._exchanges[number].acknowledge(int(request.get("taken", 0)))
        elif what == "interrupt":
            child = self._children.get(number)
            if child is not None:
                with suppress(ProcessLookupError):
                    child.send_signal(signal.SIGINT)
        elif what == "cancel":
            task = self._tasks.pop(number, None)
            if task is not None:
                task.cancel()
        else:
            if what == "command" and request.get("keep"):
                self._kept.add(number)
            exchange = Exchange(self.state, number, request, self.send)
            self._tasks[number] = asyncio.create_task(self._answer(exchange, str(what)))

    async def _answer(self, exchange: Exchange, what: str) -> None:
        number = exchange.number
        self._exchanges[number] = exchange
        try:
            if what in _LAID_OUT:
                # Not at the top: the fingerprint of all that a snapshot holds is taken on import.
                from runners.places.ssh.snapshot_updates import require_layout

                require_layout(exchange.fields)
            if what == "hello":
                await exchange.answer(self._hello())
            elif what == "command":
                async with self._slots:
                    await self._command(exchange)
            elif what in _HANDLERS:
                file, _, function = _HANDLERS[what].partition(":")
                await getattr(import_module(f"tui.agent.{file}"), function)(exchange)
            else:
                raise FresnelError(f"this agent does not know `{what}`", "it is of another version")
        except FresnelError as error:
            code = int(error.exit_code)
            await exchange.send({"error": error.message, "hint": error.hint, "code": code})
        except Exception as error:  # whatever it is, somebody waits for an answer
            await exchange.send({"error": f"{type(error).__name__}: {error}", "code": 1})
        finally:
            self._tasks.pop(number, None)
            self._kept.discard(number)
            self._exchanges.pop(number, None)

    def _hello(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "installed": installed_digest(),
            "host": host_name(),
            "user": user_name(),
            "home": str(home_folder()),
            "state": str(self.state.root),
            "python": ".".join(map(str, sys.version_info[:3])),
            "time": time.time(),
        }

    async def _command(self, exchange: Exchange) -> None:
        """Run one headless command and pass on what it prints, and its exit code."""
        request = exchange.fields
        folder = expanded(request.get("folder") or home_folder())
        folder.mkdir(parents=True, exist_ok=True)
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-E", "-c", _RUN.format(str(ROOT))),
            cwd=folder,
            env={**os.environ, **{k: str(v) for k, v in request.get("environment", {}).items()}},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._children[exchange.number] = child
        assert child.stdin is not None
        child.stdin.write(json.dumps([str(word) for word in request["arguments"]]).encode())
        child.stdin.close()
        try:
            await asyncio.gather(
                _pass_on(exchange, 1, child.stdout), _pass_on(exchange, 2, child.stderr)
            )
            await exchange.send({"exit": await child.wait()})
        finally:
            self._children.pop(exchange.number, None)


async def _pass_on(exchange: Exchange, stream: int, source: asyncio.StreamReader | None) -> None:
    assert source is not None
    while data := await source.read(_BLOCK):
        await exchange.send({"stream": stream}, data)
