"""The machines that were added: `remote/NAME/` in the state folder holds what is known of each.

Everything about reaching one stands in the user's own ssh configuration; here stand its name, what
it costs, the pinned key, and what `host setup` found there.
"""

import re
import shutil
from pathlib import Path

import msgspec

from runners.host.files import names_in, replace, stamp_of
from runners.model.errors import FresnelError, NotFound, WrongInput
from runners.state.decoding import read_or_raise
from runners.state.layout import StateDirectory

ALL = "all"
ANY = "any"
"""One of all, whichever suits."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ADDRESS = re.compile(r"[A-Za-z0-9_.+-]+(@[A-Za-z0-9_.:%-]+)?|[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?")
_BRACKETED = re.compile(r"((?:[^@\[\]]+@)?)\[([^\[\]]+)\](?::(\d+))?")
"""An IPv6 address as it is written where a port may follow."""


class RemoteHost(msgspec.Struct, frozen=True):
    """One machine: an ssh destination, its price, and where our things are on it.

    `command` is the installed panel's path there, empty before `host setup`; `folder` is where runs
    start and what is pushed lies; `home` its user's home. `interactive` means that somebody has to
    log in: a link then only goes through a connection that `host connect` opened.
    """

    name: str
    address: str
    port: int | None = None
    options: tuple[str, ...] = ()
    price: str = ""
    end_command: str = ""
    fingerprint: str = ""
    interactive: bool = False
    added: float = 0.0
    command: str = ""
    folder: str = ""
    home: str = ""
    installed: str = ""
    """The digest of the source that `host setup` put there."""
    has_rsync: bool = False
    python: str = ""
    """The interpreter that was chosen there."""
    labels: tuple[str, ...] = ()
    """Groups that it belongs to: `@label` means all machines that have it."""


class RemoteRegistry:
    """The machines of one state folder."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self._root = state.remote

    def folder(self, name: str) -> Path:
        """Where everything about a machine lies."""
        return self._root / name

    def known_hosts(self, name: str) -> Path:
        """The machine's pinned keys, in ssh's own format."""
        return self.folder(name) / "known_hosts"

    def names(self) -> list[str]:
        """Every machine's name, sorted."""
        return [name for name in names_in(self._root) if self._file(name).is_file()]

    def find(self, name: str) -> RemoteHost:
        """The machine of this name; NotFound says which there are."""
        try:
            return read_or_raise(self._file(check_name(name)), RemoteHost)
        except (FileNotFoundError, NotADirectoryError):
            known = ", ".join(self.names()) or "none yet"
            raise NotFound(
                f"no host `{name}`",
                f"hosts: {known}; `fresnel-tui host add {name} user@address` adds it",
            ) from None
        except (OSError, ValueError) as error:
            raise WrongInput(f"{self._file(name)}: {error}") from None

    def all(self) -> list[RemoteHost]:
        """Every machine, the one that was added first at the top."""
        hosts = (self.find(name) for name in self.names())
        return sorted(hosts, key=lambda host: (host.added, host.name))

    def readable(self) -> tuple[list[RemoteHost], list[str]]:
        """The same without those whose file is damaged, or went in this moment; their names."""
        found, odd = [], []
        for name in self.names():
            try:
                found.append(self.find(name))
            except FresnelError:
                odd.append(name)
        return sorted(found, key=lambda host: (host.added, host.name)), odd

    def stamps(self) -> dict[str, int]:
        """When what is known of each machine last changed, in nanoseconds; reads no file."""
        stamps = {name: stamp_of(self._file(name)) for name in self.names()}
        return {name: stamp for name, stamp in stamps.items() if stamp}

    def save(self, host: RemoteHost) -> None:
        """Keep what is known of a machine."""
        folder = self.folder(host.name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(self._file(host.name), msgspec.json.format(msgspec.json.encode(host)))

    def forget(self, name: str) -> None:
        """Remove a machine and its pinned key; what was fetched stays where it was taken."""
        self.find(name)
        shutil.rmtree(self.folder(name))

    def _file(self, name: str) -> Path:
        return self.folder(name) / "host.json"


def check_name(name: str) -> str:
    """`name` when a machine may be called so; WrongInput otherwise."""
    if not _NAME.fullmatch(name):
        raise WrongInput(f"`{name}` is no name for a host", "letters, digits, dots and dashes")
    return name


def check_new_name(name: str) -> str:
    """`name` when a machine or a label may be given it; WrongInput otherwise."""
    if name in (ALL, ANY):
        raise WrongInput(f"`{name}` means several hosts: none is called so", "another name")
    return check_name(name)


def parse_address(text: str) -> tuple[str, int | None]:
    """`user@machine`, an ssh alias, or either with `:port`, as destination and port; WrongInput.

    An IPv6 address stands in brackets where a port follows; ssh itself takes it without.
    """
    destination, number = text, None
    if found := _BRACKETED.fullmatch(text):
        destination, number = f"{found[1]}{found[2]}", int(found[3]) if found[3] else None
    else:
        address, colon, port = text.rpartition(":")
        if colon and port.isdecimal() and ":" not in address:
            destination, number = address, int(port)
    if not _ADDRESS.fullmatch(destination) or (number is not None and not 0 < number < 65536):
        raise WrongInput(
            f"`{text}` is no ssh destination",
            "an alias from ~/.ssh/config, or user@machine[:port]; [fd66::11]:22 for IPv6",
        )
    return destination, number


def address_text(host: RemoteHost) -> str:
    """A machine's destination and port, as `parse_address` takes them."""
    user, at, machine = host.address.rpartition("@")
    if ":" in machine and host.port:
        machine = f"[{machine}]"
    return f"{user}{at}{machine}" + (f":{host.port}" if host.port else "")
