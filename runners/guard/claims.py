"""Which of a guard's commands began: one marker for the warning, one for the end command."""

from pathlib import Path

import msgspec

from runners.host.files import read_plain, replace
from runners.host.identity import is_past
from runners.host.locks import is_held
from runners.state.decoding import decode
from runners.state.layout import StateDirectory

_LENGTH = 512
END, WARN = "end", "warn"


class Claim(msgspec.Struct, frozen=True):
    """A command's newest try (0: none), whether it runs, and its exit code (None: not seen).

    Of a marker that is `damaged`, or gone, nobody can say whether the command began.
    """

    attempt: int = 0
    pid: int = 0
    boot: str = ""
    exit: int | None = None
    alive: bool = False
    damaged: bool = False

    @property
    def in_this_boot(self) -> bool:
        """False for one that was begun before the machine was last switched off."""
        return not is_past(self.boot)


def marker_of(state: StateDirectory, rule: str, name: str) -> Path:
    """The marker of a rule's command."""
    return state.guard / rule / name


def reserve_markers(state: StateDirectory, rule: str) -> None:
    """Make the markers while there is room for them. Raises OSError."""
    folder = state.guard / rule
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in (END, WARN):
        # At its full length, so that rewriting it later takes no space.
        if not (folder / name).exists():
            clear_marker(folder / name)


def clear_marker(marker: Path) -> None:
    """Have a marker say that its command has not begun. Raises OSError."""
    replace(marker, b" " * _LENGTH)


def read_claim(marker: Path) -> Claim:
    """The state of a marker's command."""
    before = _claim(marker)
    if is_held(marker):
        return msgspec.structs.replace(before, alive=True)
    # The exit code is written before the lock is released, so it is read again. A try that began
    # just now is not yet taken for one that has ended.
    after = _claim(marker)
    return after if after.attempt == before.attempt else before


def _claim(marker: Path) -> Claim:
    try:
        content = read_plain(marker)
    except OSError:
        return Claim(damaged=True)
    if content.isspace():
        return Claim()
    return decode(content, Claim) or Claim(damaged=True)
