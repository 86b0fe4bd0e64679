"""One of the agent's tools at work: a question, and a stream there or back, none without an end."""

import io
import json
import os
import select
import time
from collections.abc import Callable, Sequence
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any

from runners.model.errors import FresnelError
from runners.places.ssh.connection import BEGINS_WITHIN_S, SILENT_S, hang_up
from runners.places.ssh.copying import Stamp
from runners.places.ssh.frames import decoded
from runners.places.ssh.output_tail import OutputTail
from runners.places.ssh.protocol import MARKER, MOST_NOISE
from runners.places.ssh.retries import FIRST_PAUSES_S, retry
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble, quoted

MOST_ANSWER = 256 << 20
"""Bytes of one answer: what there is of ten thousand runs."""

_ENDS_WITHIN_S = 120.0
"""What it got is on its disk by then."""
_CUT_WITHIN_S = 1.0
"""An ssh whose line broke has ended by then."""
_LINE_BROKE = 255


class AgentTool:
    """A running `ssh HOST fresnel-tui host-agent TOOL`, at the place behind its start marker.

    RemoteTrouble whenever the machine says nothing, or takes nothing, for SILENT_S; and for a line
    that broke, whatever came of that in the block.
    """

    def __init__(self, ssh: Ssh, name: str) -> None:
        self._name = name
        self._ssh = ssh
        self._stderr = OutputTail()
        line = f"exec {quoted(ssh.host.command)} host-agent {name}"
        with self._stderr.listening() as sink:
            self._process = Popen(
                [*ssh.command("keep"), "--", ssh.host.address, line],
                stdin=PIPE,
                stdout=PIPE,
                stderr=sink,
                bufsize=0,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._raw_input = _PatientWriter(self._process.stdin.fileno(), self._silent)
        self._raw_output = _PatientReader(self._process.stdout.fileno(), self._silent)
        self.input = io.BufferedWriter(self._raw_input, 1 << 16)
        self.output = io.BufferedReader(self._raw_output, 1 << 16)

    def __enter__(self) -> "AgentTool":
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        # What cannot be parsed, or written, may be for want of the rest.
        is_cut = isinstance(error, Exception) and not isinstance(error, RemoteTrouble)
        code = self._exit_code(_CUT_WITHIN_S) if is_cut else None
        stderr = self._stderr.text
        self._end()
        if code == _LINE_BROKE:
            raise self._ssh.trouble(stderr) from error

    def send(self, asked: dict[str, Any]) -> None:
        """Send the question."""
        self.input.write(json.dumps(asked).encode() + b"\n")

    def close_input(self) -> None:
        """Nothing more is sent."""
        self.input.flush()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def finish(self) -> None:
        """Wait until it has ended. FresnelError when it failed."""
        code = self._exit_code(_ENDS_WITHIN_S)
        if code is None:
            raise self._silent() from None
        if code == _LINE_BROKE:
            raise self._ssh.trouble(self._stderr.text)
        if code:
            why = self._stderr.text.strip().rpartition("\n")[2][-300:] or f"exit code {code}"
            raise FresnelError(f"{self._ssh.host.name}: {self._name} failed there: {why}")

    def _exit_code(self, within_s: float) -> int | None:
        """How ssh ended; None while it has not."""
        try:
            return self._process.wait(within_s)
        except TimeoutExpired:
            return None

    def _begin(self) -> None:
        until = time.monotonic() + BEGINS_WITHIN_S
        seen = b""
        while not seen.endswith(MARKER):
            byte = self.output.read(1)
            seen += byte
            if not byte or len(seen) > MOST_NOISE:
                raise self._ssh.trouble(self._stderr.text)
            if time.monotonic() > until:
                raise self._silent()

    def _end(self) -> None:
        # What is still buffered must not go to another file that gets the number.
        self._raw_input.close()
        self._raw_output.close()
        hang_up(self._process)
        self._stderr.close()

    def _silent(self) -> RemoteTrouble:
        return RemoteTrouble(
            Trouble.SILENT,
            f"{self._ssh.host.name} has said nothing for {SILENT_S:.0f} s ({self._name})",
            "what was copied so far is kept; "
            f"`fresnel-tui host test {self._ssh.host.name}` tests the connection",
        )


def ask_tool(ssh: Ssh, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Have a tool answer one question. FresnelError for an answer that is none."""
    with AgentTool(ssh, name) as tool:
        tool.send(asked)
        tool.close_input()
        answer = tool.output.read(MOST_ANSWER + 1)
        if len(answer) > MOST_ANSWER:
            raise FresnelError(f"{ssh.host.name}: an answer without an end")
        tool.finish()
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FresnelError(f"{ssh.host.name}: an answer that cannot be understood")
    return found


def ask_patiently(
    ssh: Ssh, name: str, asked: dict[str, Any], notify: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """As `ask_tool`, and again after a line that broke: for a question that changes nothing."""
    return retry(lambda: ask_tool(ssh, name, asked), notify=notify, pauses_s=FIRST_PAUSES_S)


def ask_stamps(
    ssh: Ssh, folder: str, names: Sequence[str], patiently: bool = False
) -> dict[str, Stamp]:
    """The stamps of those of these files of a folder there that are there."""
    ask = ask_patiently if patiently else ask_tool
    try:
        found = decoded(ask(ssh, "have", {"folder": folder, "names": names}), dict[str, Stamp])
    except ValueError as error:
        raise FresnelError(f"{ssh.host.name}: {error}") from None
    wanted = set(names)
    return {name: stamp for name, stamp in found.items() if name in wanted}


class _PatientReader(io.RawIOBase):
    """The reading end of a pipe; `silent()` is raised when nothing comes for SILENT_S."""

    def __init__(self, descriptor: int, silent: Callable[[], RemoteTrouble]) -> None:
        self._descriptor = descriptor
        self._silent = silent

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes; 0 at the end."""
        if not select.select([self._descriptor], [], [], SILENT_S)[0]:
            raise self._silent()
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _PatientWriter(io.RawIOBase):
    """The writing end of a pipe; `silent()` is raised when it takes nothing for SILENT_S."""

    def __init__(self, descriptor: int, silent: Callable[[], RemoteTrouble]) -> None:
        self._descriptor = descriptor
        self._silent = silent

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """As many of the bytes as it takes."""
        if not select.select([], [self._descriptor], [], SILENT_S)[1]:
            raise self._silent()
        return os.write(self._descriptor, data)
