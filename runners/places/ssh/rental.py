"""A machine that is created by commands of its user's, as far as that has come.

`rental.json` beside the machine's other files is written before the command that rents it is
started: whatever is interrupted, the machine is known and counted from then on.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path

import msgspec

from runners.host.files import closing, replace
from runners.host.locks import acquire, is_held
from runners.model.errors import DeniedError, NotFound, WrongInput
from runners.places.ssh.registry import RemoteHost, RemoteRegistry, parse_address
from runners.state.decoding import read

OUTPUT = "FRESNEL_REMOTE_OUTPUT"
"""The variable that names the file with what the create command printed, for the others."""

_ANSWERS_WITHIN_S = 60.0
_NO_ADDRESS = ("", "null", "none", "<none>", "<nil>", "pending", "-")


class CreationStage(str, Enum):
    """What is known of the command that creates a machine."""

    STARTED = "started"
    """Whether it came to its end is not known."""
    DONE = "done"
    FAILED = "failed"
    """It ended with an exit code other than 0: perhaps something was rented all the same."""


class Rental(msgspec.Struct, frozen=True):
    """By which commands a machine is created and found; `began` is when that began, unix seconds.

    `user` logs in where the address names nobody; `gpus` is how many it is to have.
    """

    create_command: str
    address_command: str
    began: float
    user: str = "root"
    gpus: int = 1
    budget: str = ""
    python: str = ""
    train: bool = False
    stage: CreationStage = CreationStage.STARTED
    exit_code: int | None = None


def read_rental(registry: RemoteRegistry, name: str) -> Rental | None:
    """How a machine is created; None for one that was added."""
    return read(registry.folder(name) / "rental.json", Rental)


def write_rental(registry: RemoteRegistry, name: str, rental: Rental) -> None:
    """Keep how far a creation has come."""
    folder = registry.folder(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(folder / "rental.json", msgspec.json.format(msgspec.json.encode(rental)))


def creation_lock(registry: RemoteRegistry, name: str) -> Path:
    """The lock that whoever creates or sets up this machine holds."""
    return registry.folder(name) / "creation.lock"


@contextmanager
def creating(registry: RemoteRegistry, name: str) -> Iterator[None]:
    """Be the only one that creates, adds or sets up the machine; DeniedError where another does."""
    registry.folder(name).mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = acquire(creation_lock(registry, name))
    if lock is None:
        raise _is_created(name)
    with closing(lock):
        yield


def refuse_while_created(registry: RemoteRegistry, name: str) -> None:
    """DeniedError while another process creates the machine."""
    if is_held(creation_lock(registry, name)):
        raise _is_created(name)


def _is_created(name: str) -> DeniedError:
    return DeniedError(
        f"{name} is being created or set up by another process",
        "wait for it, or press Ctrl+C there",
    )


def require_address(registry: RemoteRegistry, host: RemoteHost) -> None:
    """Raise NotFound for a machine that is being created: nothing can be done with it yet."""
    if not host.address and read_rental(registry, host.name) is not None:
        raise NotFound(
            f"{host.name} is being created: it has no address yet",
            f"`fresnel-tui host create {host.name}` goes on, `host end {host.name}` ends it",
        )


def surroundings(registry: RemoteRegistry, host: RemoteHost) -> dict[str, str]:
    """The environment of the commands that create, find and end a machine, run here."""
    return {
        **os.environ,
        "FRESNEL_REMOTE_NAME": host.name,
        "FRESNEL_REMOTE_ADDRESS": host.address,
        OUTPUT: str(_output(registry, host.name)),
    }


def run_create(
    registry: RemoteRegistry, host: RemoteHost, rental: Rental, errors: int
) -> CreationStage:
    """Run the create command, its stderr into the descriptor `errors`; how it ended.

    It is recorded as started first, and its end after it.
    """
    write_rental(registry, host.name, rental)
    with open(_output(registry, host.name), "wb", opener=partial(os.open, mode=0o600)) as output:
        code = subprocess.run(
            rental.create_command,
            shell=True,
            env=surroundings(registry, host),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            check=False,
        ).returncode
    stage = CreationStage.FAILED if code else CreationStage.DONE
    ended = msgspec.structs.replace(rental, stage=stage, exit_code=code)
    write_rental(registry, host.name, ended)
    return stage


def ask_address(
    registry: RemoteRegistry, host: RemoteHost, rental: Rental, errors: int
) -> tuple[str, int | None] | None:
    """The machine's address and port, by the last line of the address command; None for none yet.

    WrongInput for a line that is no address.
    """
    try:
        done = subprocess.run(
            rental.address_command,
            shell=True,
            env=surroundings(registry, host),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=_ANSWERS_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    text = next((line.strip() for line in reversed(lines) if line.strip()), "").strip("\"'")
    if done.returncode or text.lower() in _NO_ADDRESS:
        return None
    try:
        return parse_address(text if "@" in text else f"{rental.user}@{text}")
    except WrongInput as error:
        raise WrongInput(f"--address-command: {error.message}", error.hint) from None


def _output(registry: RemoteRegistry, name: str) -> Path:
    return registry.folder(name) / "created.txt"
