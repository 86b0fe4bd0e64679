"""The ways from a name that came from outside to a path that may be written, or be given on."""

import os
from pathlib import Path, PurePosixPath

_MOST_BYTES = 4096
_MOST_OF_A_PART = 255


def resolve_below(folder: Path, name: str) -> Path:
    """The path of `name` in `folder`, whose every folder on the way lies below it, links followed.

    Raises ValueError for a name that leads out of the folder, is itself a link, or is none.
    """
    pure = PurePosixPath(name)
    parts = pure.parts
    if not parts or pure.is_absolute() or ".." in parts or "\0" in name:
        raise ValueError(f"{name!r} is no name of a file below a folder")
    try:
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        raise ValueError(f"{name!r} is no text") from None
    if sum(lengths) + len(parts) > _MOST_BYTES or max(lengths) > _MOST_OF_A_PART:
        raise ValueError(f"a name of {sum(lengths):,} bytes")
    target = folder.joinpath(*parts)
    root = folder.resolve()
    real = target.parent.resolve()
    if real != root and root not in real.parents:
        raise ValueError(f"{name!r} leads out of {folder} by a link")
    if target.is_symlink():
        raise ValueError(f"{name!r} is a link in {folder}")
    return target


def leads_out(path: str, directory: str) -> bool:
    """Whether `path` lies in a run's `directory` by its name, but out of it by links on the way."""
    name = os.path.abspath(path)
    folder = os.path.abspath(directory)
    if not name.startswith(folder + os.sep):
        return False
    return not os.path.realpath(name).startswith(os.path.realpath(folder) + os.sep)
