"""One connection to a machine's agent: messages there and back, for as long as it lasts.

A machine that greets, and does not answer in time, is not reached.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from runners.model.errors import ExitCode, FresnelError
from runners.places.ssh.frames import AgentFrame, check_frame, decoded
from runners.places.ssh.output_tail import OutputTail
from runners.places.ssh.protocol import LinkMessage, LinkNoise, MessageReader, pack
from runners.places.ssh.ssh import (
    GREETS_AGAIN_AFTER_S,
    RemoteTrouble,
    Sharing,
    Ssh,
    Trouble,
    hung_up_before_login,
    quoted,
)

T = TypeVar("T")

BEGINS_WITHIN_S = 40.0
SILENT_S = 45.0
"""An agent says something every 10 s: a line that is silent for so long is dead."""
_LEAVES_WITHIN_S = 5.0
_BLOCK = 1 << 18
ANSWERS_WITHIN_S = 40.0
_AT_ONCE = frozenset({"watch", "follow", "older", "end"})
"""Requests that an agent answers at once."""
_EVER_AGAIN = frozenset({"watch"})
"""Of these it says every few seconds that nothing has changed."""


class LineLost(Exception):
    """The line broke, or the agent ended, in the middle of something; the argument says how."""


class AgentConnection:
    """A running `ssh HOST fresnel-tui host-agent`. Not for several threads, but `send` and `wake`
    are.
    """

    def __init__(self, ssh: Ssh, sharing: Sharing = "keep", watches: bool = False) -> None:
        """`watches`: it stays, and what it says is worth compressing."""
        host = ssh.host
        if not host.command:
            raise RemoteTrouble(
                Trouble.NO_AGENT,
                f"the panel is not installed on {host.name}",
                f"`fresnel-tui host setup {host.name}` does it",
            )
        self._ssh = ssh
        remote = f"exec {quoted(host.command)} host-agent{' watch' if watches else ''}"
        self._argv = [*ssh.command(sharing, compress=watches), "--", host.address, remote]
        self._connect()
        self._pending: list[LinkMessage] = []
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self.heard = time.monotonic()

    def _connect(self) -> None:
        self._stderr = OutputTail()
        with self._stderr.listening() as sink:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,  # Ctrl+C is ours, not ssh's
            )
        self._reader = MessageReader(marker=True)

    def begin(self, is_unwanted: Callable[[], bool] = lambda: False) -> None:
        """Wait for the agent; RemoteTrouble when it does not come.

        Whoever wakes it has it ask `is_unwanted`, and then waits on unless that is so.
        """
        for pause_s in (*GREETS_AGAIN_AFTER_S, None):
            try:
                self._await_agent(is_unwanted)
                return
            except (LineLost, LinkNoise):
                trouble = self._no_agent()
                if pause_s is None or not hung_up_before_login(self._stderr.data):
                    raise trouble from None
            self._stderr.close()
            time.sleep(pause_s)
            self._connect()

    def _await_agent(self, is_unwanted: Callable[[], bool]) -> None:
        deadline = time.monotonic() + BEGINS_WITHIN_S
        while not self._reader.begun:
            if is_unwanted() or time.monotonic() > deadline:
                raise RemoteTrouble(
                    Trouble.NOT_REACHED,
                    f"{self._ssh.host.name}: no agent within {BEGINS_WITHIN_S:.0f} s",
                    self._reader.noise,
                )
            self._read(max(0.0, deadline - time.monotonic()))

    def _no_agent(self) -> RemoteTrouble:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVES_WITHIN_S)
        hang_up(self._process)  # a shell may print without end
        code, stderr, name = self._process.returncode, self.error_output(), self._ssh.host.name
        if code == 255:
            return self._ssh.trouble(stderr)
        noise = stderr.strip() or self._reader.noise
        return RemoteTrouble(
            Trouble.NO_AGENT,
            f"{name} answers, its panel does not: {noise[-300:] or f'exit code {code}'}",
            f"`fresnel-tui host setup {name}` installs it anew",
        )

    def send(self, fields: dict[str, Any]) -> None:
        """Send one message; LineLost when the connection is lost."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(pack(fields))
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise LineLost("the connection is lost") from None

    def wake(self) -> None:
        """Let `receive` return at once, from any thread."""
        try:
            os.write(self._waker, b"w")
        except OSError:
            pass  # it is awake, or gone

    def receive(self, timeout_s: float) -> list[LinkMessage]:
        """The messages that came within `timeout_s`; none when woken. LineLost when it broke."""
        if self._pending:
            frames, self._pending = self._pending, []
            return frames
        try:
            self._read(timeout_s)
        except LinkNoise as error:
            raise not_understood(self._ssh.host.name, str(error)) from None
        frames, self._pending = self._pending, []
        if time.monotonic() - self.heard > SILENT_S:
            raise LineLost(f"no message for {SILENT_S:.0f} s")
        return frames

    def answers(self, number: int) -> Iterator[LinkMessage]:
        """The answers to request `number`, until the last; FresnelError when it was refused.

        The last has `exit`, `ended` or `answer`.
        """
        while True:
            for frame in self.receive(1.0):
                if frame.fields.get("id") != number:
                    continue
                refuse(frame)
                yield frame
                if {"exit", "ended", "answer"} & frame.fields.keys():
                    return

    def ask(self, fields: dict[str, Any], kind: type[T]) -> T:
        """Send a request that has one answer, and return that. RemoteTrouble when it is none."""
        self.send({**fields, "id": 1})
        for frame in self.answers(1):
            if "answer" in frame.fields:
                return self.understood(frame.fields["answer"], kind)
        raise LineLost("no answer")

    def understood(self, value: object, kind: type[T]) -> T:
        """What it sent as a `kind`. RemoteTrouble when it is something else."""
        try:
            return decoded(value, kind)
        except ValueError as error:
            raise not_understood(self._ssh.host.name, str(error)) from None

    def error_output(self) -> str:
        """What ssh, and the agent, said on stderr, its end."""
        return self._stderr.text

    def close(self) -> None:
        """End the connection; the agent leaves when its stdin ends."""
        hang_up(self._process)
        self._stderr.close()
        os.close(self._woken)
        os.close(self._waker)

    def __enter__(self) -> "AgentConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, timeout_s: float) -> None:
        """Take in what comes within `timeout_s`, or until it is woken."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        ready, _, _ = select.select([descriptor, self._woken], [], [], timeout_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if descriptor not in ready:
            return
        data = os.read(descriptor, _BLOCK)
        if not data:
            raise LineLost("the connection is lost")
        self.heard = time.monotonic()
        messages = self._reader.feed(data)
        try:
            for message in messages:
                check_frame(message.fields)
        except ValueError as error:
            raise not_understood(self._ssh.host.name, str(error)) from None
        self._pending += messages


def hang_up(process: subprocess.Popen[bytes]) -> None:
    """Close both pipes of a tool at another machine; it has a second to leave by itself."""
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def not_understood(name: str, why: str, version: str = "") -> RemoteTrouble:
    """A machine whose answers mean something else than ours, or nothing."""
    kind = f"version {version}; " if version else ""
    return RemoteTrouble(
        Trouble.NOT_UNDERSTOOD,
        f"{name}: an answer that cannot be parsed ({kind}{why[:300]})",
        f"`fresnel-tui host setup {name}` sets it up again; if this persists, do not trust it",
    )


def silent(name: str) -> RemoteTrouble:
    """A machine that greets, and then leaves without an answer what it is asked."""
    return RemoteTrouble(
        Trouble.SILENT,
        f"{name} has not answered for {ANSWERS_WITHIN_S:.0f} s",
        f"`fresnel-tui doctor --host {name}` shows what holds it up",
    )


class RefusedThere(FresnelError):
    """The agent refused a request, in the words and with the exit code of there."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message, hint)
        known = {member.value for member in ExitCode}
        self.exit_code = ExitCode(code) if code in known else ExitCode.RUN_FAILED


def refuse(frame: LinkMessage) -> None:
    """Raise RefusedThere for an answer that is a refusal."""
    fields = decoded(frame.fields, AgentFrame)
    if fields.error is not None:
        raise RefusedThere(fields.error, fields.hint or "", fields.code)


class AnswerDeadlines:
    """The requests of one connection that are to be answered by a certain time."""

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self._unanswered: set[int] = set()
        self._again: set[int] = set()

    def asked(self, number: int, what: str) -> None:
        """Note that the request `number` was sent."""
        if what in _AT_ONCE:
            self._due[number] = time.monotonic() + ANSWERS_WITHIN_S
            self._unanswered.add(number)
        if what in _EVER_AGAIN:
            self._again.add(number)

    def answered(self, number: int) -> None:
        """Note an answer."""
        self._unanswered.discard(number)
        if number in self._again:
            self._due[number] = time.monotonic() + ANSWERS_WITHIN_S
        else:
            self._due.pop(number, None)

    def cancelled(self, number: int) -> None:
        """Wait for it no longer."""
        self._again.discard(number)
        self.answered(number)

    @property
    def is_missed(self) -> bool:
        """Whether one is overdue."""
        return bool(self._due) and min(self._due.values()) < time.monotonic()

    @property
    def is_all_answered(self) -> bool:
        """Whether every request that is answered at once was, at least once."""
        return not self._unanswered
