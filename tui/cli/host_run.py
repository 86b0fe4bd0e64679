"""`--host NAME`: a headless command, run on a rented machine through its link."""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, TypeVar

import msgspec

from runners.cost.all_machines import refuse_over_budget
from runners.model.errors import ExitCode, FresnelError, WrongInput
from runners.places.ssh.connection import AgentConnection, LineLost, not_understood
from runners.places.ssh.frames import CommandFrame
from runners.places.ssh.groups import chooses, machines_named, names_several
from runners.places.ssh.protocol import new_request_name
from runners.places.ssh.pushed_files import pushed_overrides
from runners.places.ssh.registry import ANY, RemoteHost, RemoteRegistry
from runners.places.ssh.remote_command import LAUNCH_TRIES_S, remote_output
from runners.places.ssh.remote_request import command_message
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble, quoted
from runners.state.layout import StateDirectory
from runners.state.requests import REQUEST
from tui.cli.given_variables import sent_secrets
from tui.cli.output import echo
from tui.cli.remote_printer import RemotePrinter
from tui.cli.several_hosts import run_on_several
from tui.cli.shown_secrets import refuse_elsewhere

T = TypeVar("T")

READING = frozenset(
    {"plan", "list", "status", "diagnose", "logs", "metrics", "gpus", "monitor", "presets", "wait"}
    | {"cost", "doctor"}
)
"""What may be asked again when the line breaks; of all else it is not known whether it was done."""

_TRIES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

_FIRST_TRIES = 2
"""So often a launch tries to reach a machine again before anything was sent to it."""


def run_remotely(arguments: argparse.Namespace) -> int:
    """Run the command on the machine `--host` names, and be its output and its exit code."""
    registry = RemoteRegistry(StateDirectory())
    check_allowed(registry, arguments)
    if is_for_any(registry, arguments):
        from tui.cli.host_any import run_anywhere

        return run_anywhere(arguments)
    if names_several(registry, arguments.host):
        return run_on_several(arguments, machines_named(registry, arguments.host))
    host = registry.find(arguments.host)
    mine: list[str] = arguments.remote_command
    ssh = Ssh(registry, host)
    if arguments.command_name in ("attach", "shell"):
        _with_terminal(ssh, mine)
    if arguments.command_name == "logs" and arguments.follow and not arguments.json:
        from tui.cli.host_logs import follow_remotely

        return follow_remotely(ssh, arguments.run, arguments.lines)
    if arguments.command_name in ("launch", "plan") and arguments.preset:
        mine = [*mine, *pushed_overrides(registry, host, arguments.preset, arguments.overrides)]
        if arguments.trailing_command is not None:
            raise WrongInput("give one of them: a preset, or a command after --")
    return run_patiently(ssh, mine, arguments.command_name, host.folder, sent_secrets(arguments))


def check_allowed(registry: RemoteRegistry, arguments: argparse.Namespace) -> None:
    """DeniedError for secrets shown elsewhere, and for launches when all budget is spent."""
    refuse_elsewhere(arguments)
    if arguments.command_name == "launch":
        refuse_over_budget(registry.state, registry.names())


def is_for_any(registry: RemoteRegistry, arguments: argparse.Namespace) -> bool:
    """Whether it is about one of several machines, not about each of them."""
    if arguments.command_name in ("launch", "plan"):
        return chooses(registry, arguments.host)
    return arguments.host == ANY and ANY not in registry.names()


def run_patiently(
    ssh: Ssh, command: list[str], name: str, folder: str, secrets: Mapping[str, str]
) -> int:
    """Run a command, and again after a broken connection where that repeats nothing.

    A command that only reads, and has printed nothing yet, is sent again; so is a launch, whose
    request name keeps it from starting anything twice.
    """
    launches = name == "launch"
    tries = LAUNCH_TRIES_S if launches else _TRIES_S
    request = (os.environ.get(REQUEST) or new_request_name()) if launches else ""
    # What a command there should know of the terminal here.
    columns = os.environ.get("COLUMNS")
    sent, environment = False, {**({"COLUMNS": columns} if columns else {}), **secrets}
    for turn, pause in enumerate((*tries, None)):
        printed = RemotePrinter(
            ssh.host.name,
            # A launch that is sent again answers again: what came of the first answer is not shown
            # twice.
            whole=launches and "--follow" not in command,
            as_json="--json" in command,
            is_log=name == "logs",
        )
        try:
            with AgentConnection(ssh) as connection:
                connection.begin()
                keep = name not in READING
                connection.send(command_message(1, command, folder, request, keep, environment))
                sent = True
                return _take_answers(connection, printed)
        except (LineLost, RemoteTrouble) as error:
            if isinstance(error, RemoteTrouble) and not (
                launches and _may_be_asked_again(error, sent, turn)
            ):
                raise
            if name not in READING and not launches:
                raise FresnelError(
                    f"the connection to {ssh.host.name} was lost: {error}",
                    f"whether it was done: fresnel-tui list --host {ssh.host.name}",
                ) from None
            if printed.has_printed or pause is None:
                raise _gave_up(ssh, request) from None
            time.sleep(pause)
    return ExitCode.RUN_FAILED


def _may_be_asked_again(trouble: RemoteTrouble, sent: bool, turn: int) -> bool:
    """Whether a launch goes on trying."""
    if trouble.kind is Trouble.NOT_UNDERSTOOD:
        return False
    return sent or (turn < _FIRST_TRIES and trouble.kind is Trouble.NOT_REACHED)


def _gave_up(ssh: Ssh, request: str) -> FresnelError:
    name = ssh.host.name
    if not request:
        return RemoteTrouble(Trouble.NOT_REACHED, f"the connection to {name} was lost", "try again")
    return RemoteTrouble(
        Trouble.NOT_REACHED,
        f"the connection to {name} was lost; the run goes on there",
        f"fresnel-tui list --host {name}; with {REQUEST}={request} before it the same command "
        "starts nothing twice",
    )


def _take_answers(connection: AgentConnection, printed: RemotePrinter) -> int:
    """Print what a command says; its exit code."""
    try:
        for frame in connection.answers(1):
            piece = connection.understood(frame.fields, CommandFrame)
            printed.take(piece.stream, frame.payload)
            if piece.exit is not None:
                printed.end()
                return piece.exit
    except KeyboardInterrupt:
        connection.send({"do": "interrupt", "id": 1})
        raise
    except FresnelError:
        printed.end()
        raise
    raise LineLost("it ended without an answer")


class _Problem(msgspec.Struct):
    """What a command says with --json when it fails."""

    message: str
    hint: str | None = None


class _Refused(msgspec.Struct):
    error: _Problem


def remote_json(ssh: Ssh, command: Sequence[str], kind: type[T]) -> T:
    """What a command there prints with --json. FresnelError when it fails, or prints no `kind`."""
    done = remote_output(ssh, [*command, "--json"])
    if done.exit_code:
        with suppress(ValueError, RecursionError, OverflowError):
            error = msgspec.json.decode(done.output, type=_Refused).error
            raise FresnelError(error.message, error.hint or "")
        raise FresnelError(done.errors.decode("utf-8", "replace").strip()[-2000:])
    try:
        return msgspec.json.decode(done.output, type=kind)
    except (ValueError, RecursionError, OverflowError) as error:
        raise not_understood(ssh.host.name, f"{command[0]}: {error}") from None


def _with_terminal(ssh: Ssh, command: list[str]) -> NoReturn:
    """Become ssh with a terminal: for joining one, and for a shell."""
    host: RemoteHost = ssh.host
    try:
        line = " ".join(["exec", quoted(host.command), *(quoted(word) for word in command)])
    except ValueError as error:
        raise WrongInput(str(error)) from None
    echo(f"on {host.name}; what ends it there ends it here")
    # In our place: keys, window size and signals are ssh's own affair then.
    os.execvp("ssh", [*ssh.command("use", terminal=True), "--", host.address, line])
