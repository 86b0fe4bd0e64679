"""What was pushed: file by file, and per preset which local path lies where there.

By it a change is seen, and what may be deleted there is known.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.host.locks import locked
from runners.places.ssh.copying import Stamp
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.state.decoding import read


class PushedFolder(msgspec.Struct):
    """The files that were pushed from one folder here to the folder `remote` of one machine.

    Of each the stamp that it had here, and the one that it got there.
    """

    remote: str
    files: dict[str, tuple[Stamp, Stamp]] = {}


def read_pushed_folder(
    registry: RemoteRegistry, host: RemoteHost, local: Path, remote: str
) -> PushedFolder:
    """What was pushed from the folder `local` to `remote` before."""
    return read(_file(registry, host, local, remote), PushedFolder) or PushedFolder(remote)


def note_pushed_folder(
    registry: RemoteRegistry, host: RemoteHost, local: Path, pushed: PushedFolder
) -> None:
    """Remember what lies there now."""
    file = _file(registry, host, local, pushed.remote)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(file, msgspec.json.encode(pushed))


def place_of_folder(registry: RemoteRegistry, host: RemoteHost, local: Path) -> str:
    """Where the folder `local` lies there, or shall: under its own name, unless another has it."""
    place = f"{host.folder}/{local.name or 'program'}"
    taken = {pushed.remote for pushed in list_pushed_folders(registry, host)}
    if place in taken and not _file(registry, host, local, place).exists():
        place += f"-{hashlib.sha256(os.fsencode(local.resolve())).hexdigest()[:6]}"
    return place


def list_pushed_folders(registry: RemoteRegistry, host: RemoteHost) -> list[PushedFolder]:
    """Everything that was pushed to a machine from here."""
    files = sorted((registry.folder(host.name) / "pushed").glob("*.json"))
    return [pushed for pushed in (read(file, PushedFolder) for file in files) if pushed is not None]


def forget_pushed(registry: RemoteRegistry, host: RemoteHost) -> None:
    """Forget what was pushed to a machine: it lies there no more."""
    shutil.rmtree(registry.folder(host.name) / "pushed", ignore_errors=True)
    (registry.folder(host.name) / "pushed.json").unlink(missing_ok=True)


def _file(registry: RemoteRegistry, host: RemoteHost, local: Path, remote: str) -> Path:
    key = os.fsencode(local.resolve()) + b"\0" + remote.encode()
    name = hashlib.sha256(key).hexdigest()[:16]
    return registry.folder(host.name) / "pushed" / f"{name}.json"


class PushedPreset(msgspec.Struct, frozen=True):
    """A preset that was pushed: the overrides that name its things as they are called there."""

    preset: str
    time: float
    overrides: dict[str, str] = {}
    file: str = ""
    """The preset's own file there; empty for one that the panel ships."""


def read_pushed(registry: RemoteRegistry, host: RemoteHost) -> dict[str, PushedPreset]:
    """What was pushed to a machine, by preset."""
    return read(registry.folder(host.name) / "pushed.json", dict[str, PushedPreset]) or {}


def note_pushed(registry: RemoteRegistry, host: RemoteHost, pushed: PushedPreset) -> None:
    """Remember what was pushed; of several processes at once each adds its own."""
    folder = registry.folder(host.name)
    with locked(folder / "pushed.lock"):
        known = {**read_pushed(registry, host), pushed.preset: pushed}
        replace(folder / "pushed.json", msgspec.json.encode(known))


def pushed_overrides(
    registry: RemoteRegistry, host: RemoteHost, preset: str, given: Sequence[str]
) -> list[str]:
    """The `--set` flags with which a pushed preset finds its files; `given` overrides stay."""
    pushed = read_pushed(registry, host).get(preset)
    if pushed is None:
        return []
    mine = {override.partition("=")[0].removeprefix("parameters.") for override in given}
    return [
        word
        for key, value in pushed.overrides.items()
        if key not in mine
        for word in ("--set", f"{key}={value}")
    ]
