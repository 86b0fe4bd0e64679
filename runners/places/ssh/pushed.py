"""What was pushed to a machine: which local path lies where there, per preset."""

from collections.abc import Sequence

import msgspec

from runners.host.files import replace
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.state.decoding import read


class PushedPreset(msgspec.Struct, frozen=True):
    """A preset that was pushed: the overrides that name its things as they are called there."""

    preset: str
    time: float
    overrides: dict[str, str] = {}
    file: str = ""
    """The preset's own file there; empty for one that the panel ships."""


_decoder = msgspec.json.Decoder(dict[str, PushedPreset])


def read_pushed(registry: RemoteRegistry, host: RemoteHost) -> dict[str, PushedPreset]:
    """What was pushed to a machine, by preset."""
    return read(registry.folder(host.name) / "pushed.json", _decoder) or {}


def note_pushed(registry: RemoteRegistry, host: RemoteHost, pushed: PushedPreset) -> None:
    """Remember what was pushed."""
    known = {**read_pushed(registry, host), pushed.preset: pushed}
    replace(registry.folder(host.name) / "pushed.json", msgspec.json.encode(known))


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
