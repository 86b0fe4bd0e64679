"""What is to be brought of a run, made where the run lies: every file with its size and hash.

Hashes of large files are kept beside them: no file is read again that has not changed, and a
question that takes longer than a line holds gets further each time that it is asked again.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from runners.host.files import open_binary, replace
from runners.host.identity import host_name
from runners.host.newest_file import UNFINISHED, NewestFile, first_whole
from runners.host.printed_paths import CHECKPOINTS
from runners.model.run import Run
from runners.places.ssh.folder_results import pushed_folder_of, written_files
from runners.state.decoding import read
from runners.state.layout import StateDirectory
from runners.watch.metrics.checkpoints import checkpoint_files, run_checkpoint

KNOWN_HASHES = "fresnel-hashes.json"
_BLOCK = _LARGE = 1 << 20
_KEPT_AFTER = 256 << 20
"""Bytes that were read since they were written down the last time."""
_SETTLED_S = 2.0
"""A file that was written in the same moment may change without a new time."""

_Version = tuple[int, int, int, int]
_Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
LEFT_OUT = frozenset(
    {"supervisor.lock", "run.lock", "stop.reserve", "tty.sock", "fetched.json"}
) | {KNOWN_HASHES}
"""Signs of life and notes of that machine: nothing of a run's results."""

_Name = Annotated[str, Meta(max_length=4096)]


def hash_of(path: Path, size: int) -> str:
    """The SHA-256 of a file's first `size` bytes."""
    digest, left = hashlib.sha256(), size
    with open_binary(path) as file:
        while left and (block := file.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


class KnownHashes:
    """The hashes of one run's files, as long as those stay as they are."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / KNOWN_HASHES
        self._known = read(self._file, dict[str, tuple[_Version, _Hash]]) or {}
        self._found: dict[str, tuple[_Version, str]] = {}
        self._read = 0

    def of(self, path: Path) -> tuple[int, str]:
        """The size of a file and the SHA-256 of so many bytes of it; OSError for none."""
        status = path.stat()
        if status.st_size < _LARGE:
            return status.st_size, hash_of(path, status.st_size)
        version = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        before = self._known.get(str(path))
        if before is not None and before[0] == version:
            self._found[str(path)] = before
            return status.st_size, before[1]
        found = hash_of(path, status.st_size)
        if time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED_S:
            self._found[str(path)] = version, found
        self._read += status.st_size
        if self._read >= _KEPT_AFTER:
            self._keep({**self._known, **self._found})
        return status.st_size, found

    def close(self) -> None:
        """Keep what is known of the files that are there."""
        if self._found != self._known:
            self._keep(self._found)

    def _keep(self, known: dict[str, tuple[_Version, str]]) -> None:
        self._read = 0
        with suppress(OSError):  # a full disk: they are read again
            replace(self._file, msgspec.json.encode(known))


class FileEntry(Struct, frozen=True):
    """One file: its name in the folder `root`, its size in bytes and their SHA-256.

    `checkpoint` is the name of the one that it is of, if of one.
    """

    root: _Name
    name: _Name
    size: Annotated[int, Meta(ge=0, le=1 << 50)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    checkpoint: _Name = ""


class Manifest(Struct, frozen=True):
    """What there is to bring of one run.

    `checkpoints` are the names of those among the files, the newest first.
    """

    run: Annotated[str, Meta(max_length=128)]
    host: _Name
    directory: _Name
    state: Annotated[str, Meta(max_length=64)]
    live: bool
    checkpoints: Annotated[tuple[_Name, ...], Meta(max_length=100_000)]
    files: Annotated[tuple[FileEntry, ...], Meta(max_length=1_000_000)]
    working_directory: _Name = ""
    """The pushed folder that it ran in; empty when it ran in none."""


def make_manifest(
    state: StateDirectory, run: Run, checkpoints: str = "best", pushed: Sequence[str] = ()
) -> Manifest:
    """The files of a run: logs, curves, pictures, models, checkpoints.

    With them what it wrote into the folder that was `pushed` for it. Of the checkpoints the best
    and the newest that is whole (`best`), `all`, or `none`.
    The root of each is the run's folder, the pushed one that it ran in, or `/`.
    """
    folder = state.run(run.id).path
    found = checkpoint_files(run)
    matched = [file.path for file in found]
    chosen = _chosen(found, run, checkpoints)
    files: dict[tuple[str, str], Path] = {}
    for path in _walk(folder):
        if _is_checkpoint(path, folder, matched) and not _is_below(path, chosen):
            continue
        files[str(folder), str(path.relative_to(folder))] = path
    beside = pushed_folder_of(run, pushed)
    for top in chosen:
        for path in _walk(Path(top)) if os.path.isdir(top) else [Path(top)]:
            if folder not in path.parents:
                root = beside if beside and _is_below(path, [beside]) else "/"
                files[root, str(path.relative_to(root))] = path
    if beside:
        # Of files that no preset calls checkpoints, an encoder and a decoder have a newest each.
        is_declared = run.plan is None or bool(run.plan.spec.checkpoints) or checkpoints == "none"
        known = [path for path in matched if is_declared or os.path.isdir(path)] + [str(folder)]
        for path in written_files(beside, run, checkpoints, lambda path: _is_below(path, known)):
            files[beside, str(path.relative_to(beside))] = path
    entries, hashes = [], KnownHashes(folder)
    for (root, name), path in sorted(files.items()):
        tops = (os.path.basename(top) for top in chosen if _is_below(path, [top]))
        entry = _entry(hashes, root, name, path, next(tops, ""))
        if entry is not None:
            entries.append(entry)
    hashes.close()
    return Manifest(
        run=run.id,
        host=host_name(),
        directory=str(folder),
        state=str(run.state),
        live=run.is_live,
        checkpoints=tuple(os.path.basename(path) for path in chosen),
        files=tuple(entries),
        working_directory=beside,
    )


def _entry(
    hashes: KnownHashes, root: str, name: str, path: Path, checkpoint: str
) -> FileEntry | None:
    try:
        return FileEntry(root, name, *hashes.of(path), checkpoint)
    except OSError:
        return None  # it went away: a checkpoint that is not kept, a file that was renamed


def _chosen(found: list[NewestFile], run: Run, which: str) -> list[str]:
    """The checkpoints to bring, the newest first; one that is being written is none."""
    if which == "none":
        return []
    whole = [file.path for file in found if first_whole([file])]
    if which == "all":
        return whole
    best = [path for path in whole if "best" in os.path.basename(path)]
    newest = run_checkpoint(run, besides=best)
    wanted = {*best, *([newest.path] if newest else [])}
    return [path for path in whole if path in wanted]


def _is_checkpoint(path: Path, folder: Path, matched: list[str]) -> bool:
    if path.suffix == ".onnx":
        return False
    return _is_below(path, matched) or (
        path.suffix in CHECKPOINTS and "checkpoint" in str(path.relative_to(folder))
    )


def _is_below(path: Path, tops: Iterable[str]) -> bool:
    return any(str(path) == top or str(path).startswith(top.rstrip("/") + "/") for top in tops)


def _walk(folder: Path) -> Iterable[Path]:
    for top, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(top) / name
            if name in LEFT_OUT or name.endswith(UNFINISHED) or path.is_symlink():
                continue
            if path.is_file():
                yield path
