"""The environment of a program that has not started, kept where another supervisor finds it.

It contains secrets, so it is kept in memory (a tmpfs), in a folder of this user only, until the
last attempt has started: without it a waiting run would be lost with its supervisor. So are files
with secrets that the program reads, until the run has ended.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runners.host.files import names_in, read_plain, read_text, replace, status_of
from runners.host.ownership import permission_problem
from runners.state.layout import RunDirectory


def keep_environment(run: RunDirectory, environment: dict[str, str]) -> bool:
    """Keep `environment`; False where there is no memory file system to keep it in."""
    return _write(place_of(run, make=True), pack_environment(environment))


def pack_environment(environment: Mapping[str, str]) -> bytes:
    """Variables as a file has them."""
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in environment.items())


def unpack_environment(content: bytes) -> dict[str, str]:
    """The variables in a file's content."""
    entries = os.fsdecode(content).split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def keep_file(run: RunDirectory, name: str, content: bytes) -> str:
    """Keep a file of the run until its end; its path, empty where there is no such memory."""
    place = place_of(run, make=True)
    path = f"{place}.{name}" if place else ""
    return path if _write(path, content) else ""


def _write(path: str, content: bytes) -> bool:
    if not path:
        return False
    try:
        replace(Path(path), content, sync=False)
    except OSError:
        return False
    return True


def kept_environment(run: RunDirectory) -> dict[str, str] | None:
    """The environment that was kept, or None."""
    path = place_of(run)
    try:
        return unpack_environment(read_plain(path)) or None if path else None
    except OSError:
        return None


def forget_environment(run: RunDirectory) -> None:
    """Remove what was kept."""
    if path := place_of(run):
        _remove(path)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def forget_all(run: RunDirectory, place: str = "") -> None:
    """Remove everything that was kept of the run, its files included.

    `place` is what `place_of` said while the run's folder, by which it is found, was there.
    """
    folder, _, mine = (place_of(run) or place).rpartition("/")
    run.environment.unlink(missing_ok=True)
    for name in names_in(folder):
        if name == mine or name.startswith(f"{mine}."):
            _remove(f"{folder}/{name}")


def place_of(run: RunDirectory, make: bool = False) -> str:
    """The file of this run in memory; empty where there is none, or its folder is not ours."""
    found = status_of(run.path)
    if found is None:
        return ""
    # Some containers lack the first, and users without a login session the second.
    for base in ("/dev/shm", f"/run/user/{os.getuid()}"):
        if not _is_in_memory(base):
            continue
        folder = f"{base}/fresnel-tui-{os.getuid()}"
        if make:
            with suppress(OSError):
                os.mkdir(folder, 0o700)
        # Another user may have made the folder first: then nothing is written there.
        if not permission_problem(folder):
            # Two state folders may have a run of the same name.
            return f"{folder}/{run.id}-{found.st_dev:x}-{found.st_ino:x}"
    return ""


def _is_in_memory(folder: str) -> bool:
    mounts = read_text("/proc/self/mounts").splitlines()
    return any(line.split()[1:3] == [folder, "tmpfs"] for line in mounts)
