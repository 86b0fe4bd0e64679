"""`--host NAME`: a headless command, run on a rented machine through its link."""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from runners.model.errors import ExitCode, FresnelError, WrongInput
from runners.remote.connection import AgentConnection, LineLost
from runners.remote.pushed import pushed_overrides
from runners.remote.registry import RemoteHost, RemoteRegistry
from runners.remote.ssh import RemoteTrouble, Ssh, Trouble, quoted
from runners.state.layout import StateDirectory
from tui.cli.output import say

READING = frozenset(
    {"plan", "list", "status", "diagnose", "logs", "metrics", "gpus", "monitor", "presets", "wait"}
    | {"cost", "doctor"}
)
"""What may be asked again when the line breaks; of all else it is not known whether it was done."""

_TRIES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def run_there(arguments: argparse.Namespace) -> int:
    """Run the command on the machine `--host` names, and be its output and its exit code."""
    registry = RemoteRegistry(StateDirectory())
    host = registry.find(arguments.host)
    mine: list[str] = arguments.words_there
    ssh = Ssh(registry, host)
    if arguments.command_name in ("attach", "shell"):
        return _with_terminal(ssh, mine)
    if arguments.command_name == "logs" and arguments.follow and not arguments.json:
        from tui.cli.host_logs import follow_there

        return follow_there(ssh, arguments.run, arguments.lines)
    if arguments.command_name in ("launch", "plan") and arguments.preset:
        mine = [*mine, *pushed_overrides(registry, host, arguments.preset, arguments.overrides)]
        if arguments.command_words is not None:
            raise WrongInput("give one of them: a preset, or a command behind --")
    return _patiently(ssh, mine, arguments.command_name)


def _patiently(ssh: Ssh, words: list[str], name: str) -> int:
    """Run a command; one that only reads, and has said nothing yet, is asked again when the line
    breaks.
    """
    for pause in (*_TRIES_S, None):
        said = False
        try:
            with AgentConnection(ssh) as connection:
                connection.begin()
                connection.send(
                    {
                        "do": "command",
                        "id": 1,
                        "words": words,
                        "folder": ssh.host.folder,
                        "keep": name not in READING,
                        "environment": _shown_as(),
                    }
                )
                try:
                    for frame in connection.answers(1):
                        if "exit" in frame.fields:
                            return int(frame.fields["exit"])
                        said = said or bool(frame.payload)
                        stream = sys.stderr if frame.fields.get("stream") == 2 else sys.stdout
                        stream.buffer.write(frame.payload)
                        stream.flush()
                except KeyboardInterrupt:
                    connection.send({"do": "interrupt", "id": 1})
                    raise
        except LineLost as error:
            if name not in READING:
                raise FresnelError(
                    f"the line to {ssh.host.name} broke: {error}",
                    f"whether it was done: fresnel-tui list --host {ssh.host.name}",
                ) from None
            if said or pause is None:
                raise RemoteTrouble(
                    Trouble.NOT_REACHED, f"the line to {ssh.host.name} broke", "ask again"
                ) from None
            time.sleep(pause)
    return ExitCode.RUN_FAILED


class DoneThere(NamedTuple):
    """What a command on another machine came to."""

    exit_code: int
    output: bytes
    errors: bytes


def output_there(ssh: Ssh, words: Sequence[str], keep: bool = True) -> DoneThere:
    """Run one command on a machine and take down what it says; RemoteTrouble when that fails."""
    with AgentConnection(ssh) as connection:
        connection.begin()
        return said_over(connection, ssh, words, keep)


_numbers = itertools.count(1000)


def said_over(
    connection: AgentConnection, ssh: Ssh, words: Sequence[str], keep: bool = True
) -> DoneThere:
    """The same over a connection that is there already."""
    parts: dict[int, bytes] = {1: b"", 2: b""}
    number = next(_numbers)
    asked = {"do": "command", "id": number, "words": list(words), "keep": keep}
    try:
        connection.send({**asked, "folder": ssh.host.folder})
        for message in connection.answers(number):
            if "exit" in message.fields:
                return DoneThere(int(message.fields["exit"]), parts[1], parts[2])
            parts[int(message.fields.get("stream", 1))] += message.payload
    except LineLost as error:
        raise RemoteTrouble(Trouble.NOT_REACHED, f"{ssh.host.name}: {error}", "ask again") from None
    raise RemoteTrouble(Trouble.NOT_REACHED, f"{ssh.host.name}: no answer", "ask again")


def _shown_as() -> dict[str, str]:
    """What a command there should know of the terminal here."""
    columns = os.environ.get("COLUMNS")
    return {"COLUMNS": columns} if columns else {}


def _with_terminal(ssh: Ssh, words: list[str]) -> int:
    """Become ssh with a terminal: for joining one, and for a shell."""
    host: RemoteHost = ssh.host
    try:
        line = " ".join(["exec", quoted(host.command), *(quoted(word) for word in words)])
    except ValueError as error:
        raise WrongInput(str(error)) from None
    say(f"on {host.name}; what ends it there ends it here")
    os.execvp("ssh", [*ssh.command("use", terminal=True), "--", host.address, line])
    return ExitCode.RUN_FAILED
