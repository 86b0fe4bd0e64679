"""The agent: answers requests, follows output, sends snapshots by difference.

It owns nothing: runs, queue and guard are their supervisors' and the guard's. When its line breaks
it leaves, and so do the commands it was asked to read with.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners import __version__
from runners.host.helpers import ROOT
from runners.host.identity import host_name, user_name
from runners.model.errors import FresnelError
from runners.places.ssh.protocol import MessageReader, pack
from runners.places.ssh.source import installed_digest
from runners.state.layout import StateDirectory

BEAT_S = 10.0
_BLOCK = 1 << 16
_MOST_COMMANDS = 8
_LAID_OUT = ("watch", "older", "curves")
"""What is answered with structs, of which both ends must know the same fields."""
_RUN = "import sys; sys.path[0] = {0!r}; from tui.__main__ import main; main()"

Send = Callable[..., Awaitable[None]]


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
        self._writer = ThreadPoolExecutor(1, "line")
        self._order = asyncio.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._kept: set[int] = set()
        self._acknowledged: dict[int, tuple[asyncio.Event, list[int]]] = {}
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
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._write, data)
            except OSError:
                if not self._kept & self._tasks.keys():
                    os._exit(0)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._line, view) :]

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self.send({"beat": 1})

    def _accept(self, asked: dict[str, Any]) -> None:
        number, what = asked.get("id"), asked.get("do")
        if not isinstance(number, int):
            return
        if what == "ack":
            self._acknowledge(number, asked)
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
            if what == "command" and asked.get("keep"):
                self._kept.add(number)
            self._tasks[number] = asyncio.create_task(self._answer(number, what, asked))

    def _acknowledge(self, number: int, asked: dict[str, Any]) -> None:
        if number in self._acknowledged:
            event, counts = self._acknowledged[number]
            counts[0] += int(asked.get("taken", 0))
            event.set()

    async def _answer(self, number: int, what: object, asked: dict[str, Any]) -> None:
        try:
            if what in _LAID_OUT:
                from runners.places.ssh.snapshot import require_layout

                require_layout(asked)
            if what == "hello":
                await self.send({"id": number, "answer": self._hello()})
            elif what == "command":
                async with self._slots:
                    await self._command(number, asked)
            elif what == "follow":
                from tui.agent.follow import follow_output

                taken = self._acknowledged[number] = asyncio.Event(), [0]
                await follow_output(self.state, number, asked, self.send, taken)
            elif what == "curves":
                from tui.agent.curves import send_curves

                taken = self._acknowledged[number] = asyncio.Event(), [0]
                await send_curves(self.state, number, asked, self.send, taken)
            elif what == "watch":
                from tui.agent.snapshots import send_snapshots  # brings all that a panel reads

                await send_snapshots(self.state, number, self.send)
            elif what == "older":
                from tui.agent.older import send_older

                await send_older(self.state, number, asked, self.send)
            elif what == "ask":
                from tui.agent.asked import send_answer

                await send_answer(self.state, number, asked, self.send)
            elif what in ("ending", "end"):
                from tui.agent import ending

                act = ending.tell_ending if what == "ending" else ending.end_run
                await act(self.state, number, asked, self.send)
            elif what in ("listen", "reach"):
                from tui.agent import meeting

                do = meeting.listen if what == "listen" else meeting.reach
                await do(number, asked, self.send)
            else:
                raise FresnelError(f"this agent does not know `{what}`", "it is of another version")
        except FresnelError as error:
            words = {"error": error.message, "hint": error.hint, "code": int(error.exit_code)}
            await self.send({"id": number, **words})
        except (OSError, ValueError, KeyError, TypeError) as error:
            await self.send({"id": number, "error": f"{type(error).__name__}: {error}", "code": 1})
        finally:
            self._tasks.pop(number, None)
            self._kept.discard(number)
            self._acknowledged.pop(number, None)

    def _hello(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "installed": installed_digest(),
            "host": host_name(),
            "user": user_name(),
            "home": str(Path.home()),
            "state": str(self.state.root),
            "python": ".".join(map(str, sys.version_info[:3])),
            "time": time.time(),
        }

    async def _command(self, number: int, asked: dict[str, Any]) -> None:
        """Run one headless command and pass on what it prints, and its exit code."""
        folder = Path(asked.get("folder") or Path.home()).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-E", "-c", _RUN.format(str(ROOT)), *map(str, asked["words"])),
            cwd=folder,
            env={**os.environ, **{k: str(v) for k, v in asked.get("environment", {}).items()}},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._children[number] = child
        try:
            await asyncio.gather(
                self._pass_on(number, 1, child.stdout), self._pass_on(number, 2, child.stderr)
            )
            await self.send({"id": number, "exit": await child.wait()})
        finally:
            self._children.pop(number, None)

    async def _pass_on(self, number: int, stream: int, source: asyncio.StreamReader | None) -> None:
        assert source is not None
        while data := await source.read(_BLOCK):
            await self.send({"id": number, "stream": stream}, data)
