"""Bringing a run's results here, each file proven by the hash that was made there."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from runners.host.files import write_json
from runners.model.errors import FresnelError
from runners.places.ssh.connection import RefusedThere
from runners.places.ssh.copying import Copied, Copier
from runners.places.ssh.manifest import hash_of
from runners.places.ssh.ssh import Ssh
from runners.places.ssh.stream import StreamCopier

MANIFEST = "fresnel-manifest.json"
ELSEWHERE = "elsewhere"
"""The folder of what a run wrote outside of its own."""

_ROUNDS = 5
_GROWING = (".log", ".jsonl")
_SPARE = 64 << 20


class FetchedRun(NamedTuple):
    """What was brought of one run; `changing` are files that a live run wrote anew every time."""

    run: str
    state: str
    is_live: bool
    folder: Path
    files: int
    bytes: int
    checkpoints: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    mended: int = 0
    """Files that were not as they are there, and were copied again."""


class Manifests(NamedTuple):
    """What there is to bring of some runs, and the machine's ledger."""

    runs: list[dict[str, Any]]
    ledger: str


def ask_manifests(ssh: Ssh, runs: Sequence[str], checkpoints: str) -> Manifests:
    """What there is to bring, hashed there. RefusedThere for a run that is not there."""
    asked = {"runs": list(runs), "checkpoints": checkpoints}
    answer = StreamCopier(ssh).ask("manifest", asked)
    if "error" in answer:
        raise RefusedThere(*answer["error"])
    return Manifests(answer["runs"], answer["ledger"])


def fetch_run(
    ssh: Ssh,
    copier: Copier,
    manifest: dict[str, Any],
    to: Path,
    checkpoints: str = "best",
    tell: Callable[[str], None] = lambda _: None,
) -> FetchedRun:
    """Bring one run into `to/RUN`, and compare every byte with its hash.

    What differs is looked at again there: what changed meanwhile is brought as it is now, what did
    not is copied anew. FresnelError names what cannot be brought whole.
    """
    folder = to / str(manifest["run"])
    _check_room(manifest, folder)
    copied, mended = _copy(copier, manifest, folder, None, False), 0
    bad = _differing(manifest, folder)
    for _ in range(_ROUNDS):
        if not bad:
            break
        before, manifest = manifest, ask_manifests(ssh, [manifest["run"]], checkpoints).runs[0]
        same = _same(before, manifest) & bad
        if same:
            mended += len(same)
            tell(f"{manifest['run']}: {len(same)} differ from what lies there: copied anew")
        more = _copy(copier, manifest, folder, same, True)
        rest = _copy(copier, manifest, folder, set(_keys(manifest)) - same, False)
        copied = Copied(
            copied.files + more.files + rest.files, copied.bytes + more.bytes + rest.bytes
        )
        bad = _differing(manifest, folder)
    names = tuple(sorted(name for _, name in bad))
    if names and not manifest["live"]:
        raise FresnelError(
            f"{manifest['run']}: not as it lies there after {_ROUNDS} copies: {', '.join(names)}",
            "look at the disk here and there; it is not marked as fetched",
        )
    write_json(folder / MANIFEST, manifest)
    return FetchedRun(
        str(manifest["run"]),
        str(manifest["state"]),
        bool(manifest["live"]),
        folder,
        copied.files,
        copied.bytes,
        tuple(manifest["checkpoints"]),
        names,
        mended,
    )


_Key = tuple[str, str]


def _keys(manifest: dict[str, Any]) -> dict[_Key, dict[str, Any]]:
    return {(entry["root"], entry["name"]): entry for entry in manifest["files"]}


def _same(before: dict[str, Any], after: dict[str, Any]) -> set[_Key]:
    """The files that did not change there."""
    old = _keys(before)
    return {key for key, entry in _keys(after).items() if old.get(key) == entry}


def _place(folder: Path, key: _Key) -> Path:
    root, name = key
    return folder / name if root != "/" else folder / ELSEWHERE / name


def _copy(
    copier: Copier, manifest: dict[str, Any], folder: Path, keys: set[_Key] | None, anew: bool
) -> Copied:
    """Copy the files with these keys, all when None."""
    copied = Copied()
    for root in dict.fromkeys(file["root"] for file in manifest["files"]):
        names = [
            name
            for at, name in _keys(manifest)
            if at == root and (keys is None or (at, name) in keys)
        ]
        if any(".." in Path(name).parts or Path(name).is_absolute() for name in names):
            raise FresnelError(f"{manifest['run']}: a file's name leads out of its folder")
        target = folder / ELSEWHERE if root == "/" else folder
        part = copier.bring(root, names, target, anew)
        copied = Copied(copied.files + part.files, copied.bytes + part.bytes)
    return copied


def _differing(manifest: dict[str, Any], folder: Path) -> set[_Key]:
    """The files here that are not what the manifest says; a log may have grown since."""
    bad = set()
    for key, entry in _keys(manifest).items():
        path = _place(folder, key)
        try:
            size = path.stat().st_size
            grew = manifest["live"] and path.suffix in _GROWING and size > entry["size"]
            if (size != entry["size"] and not grew) or hash_of(path, entry["size"]) != entry[
                "sha256"
            ]:
                bad.add(key)
        except OSError:
            bad.add(key)
    return bad


def _check_room(manifest: dict[str, Any], folder: Path) -> None:
    """FresnelError when it does not fit on the disk here."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = 0
    for key, entry in _keys(manifest).items():
        path = _place(folder, key)
        missing += (
            entry["size"] if not path.exists() else max(0, entry["size"] - path.stat().st_size)
        )
    free = shutil.disk_usage(folder).free
    if missing + _SPARE > free:
        raise FresnelError(
            f"{manifest['run']}: {missing / 1e6:,.0f} MB to bring, {free / 1e6:,.0f} MB free in "
            f"{folder}",
            "--to names another folder; --checkpoints none leaves the checkpoints",
        )
