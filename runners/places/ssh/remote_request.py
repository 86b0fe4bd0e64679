"""A command that is run on another machine: what it is given, and what it answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runners.host.identity import attendance
from runners.places.ssh.connection import RefusedThere, refuse
from runners.places.ssh.frames import CommandFrame, decoded
from runners.places.ssh.protocol import LinkMessage, new_request_name
from runners.state.requests import REQUEST

_MOST_OUTPUT = 32 << 20
"""Bytes that a command may print for somebody who waits for all of it."""


def command_message(
    number: int,
    arguments: Sequence[str],
    folder: str,
    request: str = "",
    keep: bool = True,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What has a command run there; answers bear its `number`.

    `request` names a launch, which is then done once however often it is asked for; what is not
    to `keep` on when the line breaks ends with it.
    """
    named = attendance() | ({REQUEST: request} if request else {})
    return {
        "do": "command",
        "id": number,
        "arguments": list(arguments),
        "folder": folder,
        "keep": keep,
        "environment": {**(environment or {}), **named},
    }


class RemoteRequest:
    """One command to run there.

    A launch has a name, by which it is asked again after a break, and starts nothing twice.
    Nothing else is sent again: whether it was done before a line broke is not known.
    """

    def __init__(self, arguments: list[str], folder: str, done: Callable[["RemoteRequest"], None]):
        self.arguments = arguments
        self.folder = folder
        self.name = new_request_name() if arguments[0] == "launch" else ""
        self.output = b""
        self.errors = b""
        self.exit_code: int | None = None
        self.problem = ""
        self.is_sent = False
        self._done = done

    def begin_again(self) -> None:
        """Forget what was said before the line broke."""
        self.output = self.errors = b""

    def take(self, frame: LinkMessage) -> bool:
        """Take in what a command printed; True when it has ended."""
        try:
            refuse(frame)
        except RefusedThere as error:
            self.finish(str(error))
            return True
        piece = decoded(frame.fields, CommandFrame)
        if piece.stream == 2:
            self.errors += frame.payload
        else:
            self.output += frame.payload
        if len(self.output) + len(self.errors) > _MOST_OUTPUT:
            self.finish(f"it prints more than {_MOST_OUTPUT >> 20} MiB")
            return True
        if piece.exit is None:
            return False
        self.exit_code = piece.exit
        self.finish()
        return True

    def finish(self, problem: str = "") -> None:
        """Tell whoever asked."""
        self.problem = problem
        self._done(self)
