"""A headless command, run on a rented machine to its end: what it printed, and its exit code."""

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

from runners.model.errors import FresnelError
from runners.places.ssh.connection import AgentConnection, LineLost
from runners.places.ssh.frames import CommandFrame, WithdrawnAnswer
from runners.places.ssh.remote_request import command_message
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble

LAUNCH_TRIES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 30.0)
"""Pauses before a launch is sent again that has a name by which nothing starts twice."""
_MOST_OUTPUT = 256 << 20
"""Bytes that a command may print for somebody who waits for all of it: the curves of a long run."""


class RemoteResult(NamedTuple):
    """What a command on another machine came to."""

    exit_code: int
    output: bytes
    errors: bytes


def remote_output(ssh: Ssh, command: Sequence[str], keep: bool = True) -> RemoteResult:
    """Run one command on a machine and take down what it says; RemoteTrouble when that fails."""
    with AgentConnection(ssh) as connection:
        connection.begin()
        return output_over(connection, ssh, command, keep)


# Above those that are given by hand.
_numbers = itertools.count(1000)


def output_over(
    connection: AgentConnection,
    ssh: Ssh,
    command: Sequence[str],
    keep: bool = True,
    request: str = "",
) -> RemoteResult:
    """The same over a connection that is there already; `request` names a launch."""
    parts: dict[int, bytes] = {1: b"", 2: b""}
    number = next(_numbers)
    try:
        connection.send(command_message(number, command, ssh.host.folder, request, keep))
        for message in connection.answers(number):
            piece = connection.understood(message.fields, CommandFrame)
            parts[piece.stream] += message.payload
            if piece.exit is not None:
                return RemoteResult(piece.exit, parts[1], parts[2])
            if sum(map(len, parts.values())) > _MOST_OUTPUT:
                raise FresnelError(f"{ssh.host.name}: more than {_MOST_OUTPUT >> 20} MiB of answer")
    except LineLost as error:
        raise RemoteTrouble(Trouble.NOT_REACHED, f"{ssh.host.name}: {error}", "try again") from None
    raise RemoteTrouble(Trouble.NOT_REACHED, f"{ssh.host.name}: no answer", "try again")


def launch_once(ssh: Ssh, command: Sequence[str], request: str) -> RemoteResult:
    """Launch, over other connections when one breaks; nothing starts twice for one `request`."""
    for pause in (*LAUNCH_TRIES_S, None):
        try:
            with AgentConnection(ssh) as connection:
                connection.begin()
                return output_over(connection, ssh, command, request=request)
        except RemoteTrouble:
            if pause is None:
                raise
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def withdraw(ssh: Ssh, request: str) -> list[str]:
    """The runs that a launch of this name has made there; it makes none from now on."""
    asked = {"do": "ask", "question": "withdraw", "subjects": [request]}
    with AgentConnection(ssh) as connection:
        connection.begin()
        try:
            return connection.ask(asked, WithdrawnAnswer).found.runs
        except LineLost as error:
            message = f"{ssh.host.name}: {error}"
            raise RemoteTrouble(Trouble.NOT_REACHED, message) from None
