"""The file system that was full when a run failed: by its folders, and the paths it printed."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from runners.diagnosis.signatures import Signature
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.host.mounts import mount_point, silent_server
from runners.model.run import Run

KIND = "disk_full"
_PATH = re.compile(r"""(?<![\w./])/[^\s\0'"’”`,;:()\[\]]+""")
_LEAST = 1 << 20
"""Bytes: with less, and less than a hundredth of all, a disk takes no file worth the name."""


def find_full_disk(run: Run, printed: str = "") -> str:
    """Where the file system is mounted that is full; empty where none is.

    Of an ended run it is the one that was seen as it ended. `printed` is a line of its output.
    """
    if run.ending is not None:
        return run.ending.get("disk", "")
    return next((mount_point(folder) for folder in _folders(run, printed) if _is_full(folder)), "")


def disk_in(line: str) -> str:
    """Where the file system is mounted of which `line` names a path; empty where it names none."""
    return next((mount_point(folder) for folder in _printed([line])), "")


def on_disk(found: Diagnosis, disk: str) -> Diagnosis:
    """The verdict of a full disk with the name of that disk; empty: it is not known."""
    if not disk:
        return found
    cause = f"{found.cause.rstrip('.')}: {disk}."
    return msgspec.structs.replace(found, title=f"{found.headline}: {disk}", cause=cause)


def without_words(
    found: NotKnown, disk: str, signatures: Sequence[Signature]
) -> Diagnosis | NotKnown:
    """What `disk`, full as the run ended, explains: an end without words, which had no room."""
    rests = f"{disk} had no room left as it ended"
    known = next((entry for entry in signatures if entry.kind == KIND), None)
    if found.line or known is None:
        return msgspec.structs.replace(found, message=f"{found.message}; {rests}")
    return Diagnosis(
        KIND,
        known.id,
        known.cause,
        known.remedy,
        (rests,),
        found.looked_at,
        remedies=known.remedies,
        title=known.title,
    )


def _folders(run: Run, printed: str) -> Iterator[Path]:
    yield from _printed([printed])
    if run.plan is not None:
        yield Path(run.plan.working_directory)
        yield from _printed(run.plan.argv)
    yield Path(run.directory)
    yield Path(os.environ.get("TMPDIR") or "/tmp")


def _printed(texts: Iterable[str]) -> Iterator[Path]:
    """The folders in which the paths in these texts are, as far as they exist."""
    for text in texts:
        for found in _PATH.findall(text):
            if silent_server(found):
                continue
            paths = Path(found), *Path(found).parents
            path = next(each for each in paths if os.access(each, os.F_OK))
            # `/` of a text is nearly always no path, or one that was not there.
            if path != path.parent:
                yield path


def _is_full(folder: Path) -> bool:
    if silent_server(str(folder)):
        return False
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    size = found.f_frsize * found.f_blocks
    free = found.f_frsize * found.f_bavail
    # /proc and the like have no blocks at all; an image that is only read has none free.
    return bool(size and not found.f_flag & os.ST_RDONLY) and (
        free < min(_LEAST, size // 100) or bool(found.f_files and not found.f_favail)
    )
