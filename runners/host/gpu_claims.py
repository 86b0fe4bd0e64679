"""Which GPUs of this machine are held by runs of other users, or of another state folder.

A program may load its data for minutes before it touches its GPU, which looks free to everybody
else until then. So each run has an empty file for each of its GPUs, named by both, in memory that
all users share, and locked while its supervisor lives. Standard library only: the supervisor
imports it.
"""

import os
import pwd
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from runners.host.files import modified_at, names_in
from runners.host.locks import acquire, is_held

VARIABLE = "FRESNEL_CLAIMS_DIR"
_FOLDER = "/dev/shm/fresnel-tui-gpus"
_BETWEEN = "~"
_OLD_S = 60.0
"""An unlocked file that is younger may be about to be locked."""


class GpuClaims:
    """The claims of one run. Others are kept from its GPUs by good will: nothing fails without."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._held: dict[Path, int] = {}

    def take(self, uuids: Sequence[str]) -> None:
        """Hold these GPUs."""
        folder = claims_folder()
        with suppress(OSError):
            _make(folder)
            for uuid in uuids:
                path = folder / f"{uuid}{_BETWEEN}{self._run}"
                if path in self._held:
                    continue
                # Who looks whether it is locked keeps it for microseconds.
                descriptor = acquire(path, mode=0o644)
                if descriptor is not None:
                    self._held[path] = descriptor
                    os.fchmod(descriptor, 0o644)  # whatever the umask
            _remove_old(folder)

    def release(self) -> None:
        """Give them back."""
        for path, descriptor in self._held.items():
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)
        self._held.clear()


def claimed(is_own: Callable[[str], bool]) -> dict[str, str]:
    """The GPUs that runs hold which are not `is_own`, by UUID, with the user's name.

    Raises OSError where they cannot be looked at just now.
    """
    found = {}
    folder = claims_folder()
    for name in names_in(folder, must_know=True):
        uuid, _, run = name.partition(_BETWEEN)
        user = None if is_own(run) else _user_of(folder / name)
        if user is not None and is_held(folder / name):
            found[uuid] = user
    return found


def claims_folder() -> Path:
    """A folder that all users of the machine can write; containers may share one, too."""
    return Path(os.environ.get(VARIABLE) or _FOLDER)


def _make(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise NotADirectoryError(folder)  # somebody's link would have us write elsewhere


def _user_of(path: Path) -> str | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    try:
        return pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return str(status.st_uid)


def _remove_old(folder: Path) -> None:
    """Remove what this user's supervisors left behind that were killed."""
    for name in names_in(folder):
        path = folder / name
        is_ours = os.lstat(path).st_uid == os.getuid()
        if is_ours and time.time() - modified_at(path) > _OLD_S and not is_held(path):
            path.unlink()
