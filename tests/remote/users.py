"""Users of a machine's own for tests: a user database, homes and a view of the disk that only its
mount namespace has. Nothing of the machine's own is written to.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_FIRST_NUMBER = 71_000
_MOST_USERS = 100
_ID_MAP = Path("/proc/self/uid_map")


class LabUser(NamedTuple):
    """Somebody who exists on one machine alone."""

    name: str
    number: int

    @property
    def home(self) -> Path:
        """The home, as it is seen there."""
        return Path("/home") / self.name

    def own(self, path: Path) -> None:
        """Give the user a file, or a folder with everything in it."""
        for one in (path, *path.rglob("*")):
            os.chown(one, self.number, self.number, follow_symlinks=False)


def make_user(name: str, number: int, etc: Path, shell: str = "/bin/bash") -> LabUser:
    """A user with the `number`th id of the lab, entered in a copy of the user databases in `etc`:
    `ip netns exec` lays what is in there over `/etc`.
    """
    user = LabUser(name, _FIRST_NUMBER + number)
    own = f"{name}:x:{user.number}:"
    passwd = f"{own}{user.number}::{user.home}:{shell}\n"
    # First, as this machine may have a user of that name: of two the first is meant.
    (etc / "passwd").write_text(passwd + Path("/etc/passwd").read_text())
    (etc / "group").write_text(f"{own}\n" + Path("/etc/group").read_text())
    (etc / "shadow").write_text(f"root:*:::::::\n{name}:*:::::::\n")
    (etc / "shadow").chmod(0o600)
    return user


class MachineDisk:
    """What a machine's users see: the home of one of them, and `shown` where it lies here, however
    private the folders above it are.
    """

    def __init__(self, folder: Path, home: Path, user: LabUser, shown: Sequence[Path]) -> None:
        """`folder` has the sshd's own files; `home` is the user's home, seen from here."""
        self._stage = folder / "disk"
        self._places = {user.home: home, folder: folder}
        self._places.update({path: path for path in _outermost(shown)})
        self._covers = _outermost([Path("/home"), *filter(None, map(_private_above, shown))])
        self._masks: list[Path] = []
        self._put: dict[Path, Path] = {}

    def mask(self, program: Path) -> None:
        """Let a program not be there."""
        self._masks.append(program)

    def put(self, source: Path, place: Path) -> None:
        """Have the folder `source` lie at `place`, which is there already."""
        self._put[place] = source

    def entering(self, *words: str) -> list[str]:
        """The words of a command, run in a mount namespace that is the machine's already."""
        lines = ["set -e"]
        lines += [_mount(source, place) for place, source in self._put.items()]
        lines += [_mount(Path("/dev/null"), path) for path in self._masks]
        for number, cover in enumerate(self._covers):
            lines += self._covered(cover, self._stage / str(number))
        return ["sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh", *words]

    def _covered(self, cover: Path, stage: Path) -> list[str]:
        """An empty folder over `cover`, with the places that lie below it."""
        stage.mkdir(parents=True, exist_ok=True)
        lines = [f"mount -t tmpfs -o mode=755 none {_quoted(stage)}"]
        for place, source in self._places.items():
            if place.is_relative_to(cover):
                target = stage / place.relative_to(cover)
                lines += [f"mkdir -p {_quoted(target)}", _mount(source, target)]
        return [*lines, _mount(stage, cover, "--rbind")]


def _mount(source: Path, place: Path, how: str = "--bind") -> str:
    return f"mount {how} {_quoted(source)} {_quoted(place)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _private_above(path: Path) -> Path | None:
    """The outermost folder above `path` that is not for everybody."""
    above = [one for one in reversed(path.parents) if not one.stat().st_mode & 0o001]
    return above[0] if above else None


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """`paths` without those that lie in another of them."""
    found: list[Path] = []
    for path in sorted({one.resolve() for one in paths}):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def why_no_users(*shown: Path) -> str:
    """Why nobody but who runs the tests can be had here, or could read these folders wherever they
    are shown; empty when they can.
    """
    mapped = [list(map(int, line.split())) for line in _ID_MAP.read_text().splitlines()]
    if not any(first <= _FIRST_NUMBER < first + count - _MOST_USERS for first, _, count in mapped):
        return f"no user with the number {_FIRST_NUMBER} can be had"
    private = [str(path) for path in shown if path.stat().st_mode & 0o005 != 0o005]
    return f"{', '.join(private)}: for its owner alone" if private else ""
