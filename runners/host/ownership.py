"""Whose a folder is and who may write it: what others can change is not acted on."""

import os
import stat
from collections.abc import Collection
from pathlib import Path


def permission_problem(folder: Path | str, follow: bool = False) -> str:
    """Why `folder` may not be acted on (a link, unless `follow`); empty if only we write it."""
    try:
        found = os.stat(folder, follow_symlinks=follow)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is {'a link' if stat.S_ISLNK(found.st_mode) else 'no folder'}"
    if found.st_uid != os.geteuid():
        return (
            f"{folder} belongs to {user_name_of(found.st_uid)}, not to {user_name_of(os.geteuid())}"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{folder} may be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def keep_private(folder: Path, ours: Collection[str]) -> bool:
    """Remove the rights of others from a folder of ours; True when there were any.

    A folder that holds more than names beginning with one of `ours` has another purpose (`/tmp`, a
    home) and stays as it is.
    """
    try:
        found = os.stat(folder)
        loose = (
            found.st_uid == os.geteuid()
            and found.st_mode & 0o077
            # A sticky folder is shared on purpose, as `/tmp` is.
            and not found.st_mode & stat.S_ISVTX
        )
        if not loose or any(name.partition(".")[0] not in ours for name in os.listdir(folder)):
            return False
        os.chmod(folder, 0o700)
    except OSError:
        return False
    return True


def user_name_of(uid: int) -> str:
    """The name of a user, or the number where it has none."""
    import pwd  # only on the way to saying what is wrong

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
