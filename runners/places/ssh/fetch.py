"""Bringing a run's results here, each file proven by the hash that was made there.

The machine is not trusted: what it names is written below the folder that was asked for, and over
nothing that was not fetched from it before.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from runners.host.below import resolve_below
from runners.host.files import replace
from runners.model.errors import FresnelError
from runners.model.run_ids import is_run_id
from runners.places.ssh.agent_tool import ask_patiently
from runners.places.ssh.connection import RefusedThere
from runners.places.ssh.copying import Copied, Copier
from runners.places.ssh.fetched_before import FetchedBefore
from runners.places.ssh.folder_results import is_below
from runners.places.ssh.frames import decoded
from runners.places.ssh.manifest import FileEntry, Manifest, hash_of
from runners.places.ssh.pushed_files import list_pushed_folders
from runners.places.ssh.ssh import Ssh

MANIFEST = "fresnel-manifest.json"
CURVES = "fresnel-metrics.csv"
OUTSIDE = "elsewhere"
"""The folder of what a run wrote outside of its own."""
FOLDER = "folder"
"""The folder of what a run wrote into the one that was pushed for it."""

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
    rewritten: tuple[str, ...] = ()
    """Files that only grow, and no longer begin with what was fetched of them before."""


class Manifests(msgspec.Struct, frozen=True):
    """What there is to bring of some runs, and the machine's ledger."""

    runs: Annotated[list[Manifest], Meta(max_length=10_000)] = []
    ledger: str = ""
    error: tuple[str, str, int] | None = None


def ask_manifests(
    ssh: Ssh,
    runs: Sequence[str],
    checkpoints: str,
    notify: Callable[[str], None] = lambda _: None,
) -> Manifests:
    """What there is to bring, hashed there.

    RefusedThere for a run that is not there, FresnelError for an answer that cannot be one.
    """
    pushed = _pushed(ssh)
    asked = {"runs": list(runs), "checkpoints": checkpoints, "pushed": pushed}
    try:
        answer = decoded(ask_patiently(ssh, "manifest", asked, notify), Manifests)
        if answer.error is not None:
            raise RefusedThere(*answer.error)
        _check_runs(runs, [manifest.run for manifest in answer.runs])
        for manifest in answer.runs:
            if manifest.working_directory and not is_below(manifest.working_directory, pushed):
                raise ValueError(f"{manifest.working_directory!r} was not pushed")
    except ValueError as error:
        raise FresnelError(
            f"{ssh.host.name}: its list of files cannot be parsed: {error}", "nothing was written"
        ) from None
    return answer


def _pushed(ssh: Ssh) -> list[str]:
    """The folders there that were pushed, without the one where all runs start."""
    found = {folder.remote for folder in list_pushed_folders(ssh.registry, ssh.host)}
    return sorted(found - {ssh.host.folder})


def _check_runs(asked: Sequence[str], answered: Sequence[str]) -> None:
    """Raise ValueError for runs that nobody asked for, and for what is no run.

    A name, a group or `last` may mean any run; an id means that one.
    """
    by_name = any(not is_run_id(word) for word in asked)
    for run in answered:
        if not is_run_id(run):
            raise ValueError(f"{run!r} is no run")
        if not by_name and run not in asked:
            raise ValueError(f"{run} was not asked for")
    if len(set(answered)) != len(answered):
        raise ValueError("one run twice")


def fetch_run(
    ssh: Ssh,
    copier: Copier,
    manifest: Manifest,
    to: Path,
    checkpoints: str = "best",
    notify: Callable[[str], None] = lambda _: None,
) -> FetchedRun:
    """Bring one run into `to/RUN`, and compare every byte with its hash.

    What differs is looked at again there: what changed meanwhile is brought as it is now, what did
    not is copied anew. FresnelError names what cannot be brought whole.
    """
    to.mkdir(parents=True, exist_ok=True)
    try:
        folder = resolve_below(to, manifest.run)
    except ValueError as error:
        raise FresnelError(f"{ssh.host.name}: {error}", "nothing was written") from None
    before = FetchedBefore(folder, ssh.host.name)
    _claim(before, manifest)
    _check_room(manifest, folder)
    past = _past(manifest, folder)
    copied, mended = _copy(copier, manifest, folder, None, False), 0
    bad = _differing(manifest, folder)
    for _ in range(_ROUNDS):
        if not bad:
            break
        last, manifest = manifest, _asked_again(ssh, manifest, checkpoints, notify)
        _claim(before, manifest)
        same = _same(last, manifest) & bad
        if same:
            mended += len(same)
            notify(f"{manifest.run}: {len(same)} differ from the originals: copied again")
        more = _copy(copier, manifest, folder, same, True)
        rest = _copy(copier, manifest, folder, set(_keys(manifest)) - same, False)
        copied = Copied(
            copied.files + more.files + rest.files, copied.bytes + more.bytes + rest.bytes
        )
        bad = _differing(manifest, folder)
    names = tuple(sorted(name for _, name in bad))
    if names and not manifest.live:
        raise FresnelError(
            f"{manifest.run}: still different from the originals after {_ROUNDS} copies: "
            + ", ".join(names),
            "check the disks of both machines; it is not marked as fetched",
        )
    replace(folder / MANIFEST, msgspec.json.encode(manifest))
    return FetchedRun(
        manifest.run,
        manifest.state,
        manifest.live,
        folder,
        copied.files,
        copied.bytes,
        manifest.checkpoints,
        names,
        mended,
        tuple(name for name, past_hash in past.items() if not past_hash.holds(folder / name)),
    )


class _Past(NamedTuple):
    """What a file that only grows had in it before."""

    size: int
    sha256: str

    def holds(self, path: Path) -> bool:
        """Whether the file still begins with it."""
        try:
            return path.stat().st_size >= self.size and hash_of(path, self.size) == self.sha256
        except OSError:
            return False


def _past(manifest: Manifest, folder: Path) -> dict[str, _Past]:
    """Of each file that only grows, what was fetched of it before."""
    found = {}
    for key in _keys(manifest):
        path = folder / _name(manifest, key)
        try:
            if path.suffix in _GROWING and (size := path.stat().st_size):
                found[_name(manifest, key)] = _Past(size, hash_of(path, size))
        except OSError:
            continue
    return found


_Key = tuple[str, str]


def _asked_again(
    ssh: Ssh, manifest: Manifest, checkpoints: str, notify: Callable[[str], None]
) -> Manifest:
    """What there is of the same run now."""
    runs = ask_manifests(ssh, [manifest.run], checkpoints, notify).runs
    if len(runs) != 1:
        raise FresnelError(f"{manifest.run}: no longer on {ssh.host.name}")
    return runs[0]


def _keys(manifest: Manifest) -> dict[_Key, FileEntry]:
    return {(entry.root, entry.name): entry for entry in manifest.files}


def _same(before: Manifest, after: Manifest) -> set[_Key]:
    """The files that did not change there."""
    old = _keys(before)
    return {key for key, entry in _keys(after).items() if old.get(key) == entry}


def _place(manifest: Manifest, root: str) -> str:
    """Where the files of a folder there lie in the folder of their run here; empty: at its top."""
    if root == "/":
        return OUTSIDE
    return FOLDER if root == manifest.working_directory else ""


def _name(manifest: Manifest, key: _Key) -> str:
    """A file's name in the folder of its run here."""
    root, name = key
    place = _place(manifest, root)
    return f"{place}/{name}" if place else name


def _claim(before: FetchedBefore, manifest: Manifest) -> None:
    """Check every name, and note it as fetched, before anything is written."""
    roots = {manifest.directory, manifest.working_directory, "/"} - {""}
    if any(entry.root not in roots for entry in manifest.files):
        raise FresnelError(f"{manifest.run}: files of another folder than its own")
    names = [_name(manifest, key) for key in _keys(manifest)]
    if {MANIFEST, CURVES} & set(names):
        raise FresnelError(f"{manifest.run}: a file has a name that is kept for ours")
    before.claim([*names, MANIFEST, CURVES])


def _copy(
    copier: Copier, manifest: Manifest, folder: Path, keys: set[_Key] | None, anew: bool
) -> Copied:
    """Copy the files with these keys, all when None: the newest checkpoint is here first."""
    copied = Copied()
    for batch in _batches(manifest):
        sizes = {
            entry.name: _most(entry, manifest.live)
            for entry in batch
            if keys is None or (entry.root, entry.name) in keys
        }
        root = batch[0].root
        target = folder / _place(manifest, root)
        some = copier.bring(root, sizes, target, anew)
        copied = Copied(copied.files + some.files, copied.bytes + some.bytes)
    return copied


def _batches(manifest: Manifest) -> list[list[FileEntry]]:
    """The files as they are copied one batch after the other, each of one folder there."""
    newest = manifest.checkpoints[:1]
    found: dict[tuple[int, str], list[FileEntry]] = {}
    for entry in _keys(manifest).values():
        turn = (entry.checkpoint not in newest) + (not entry.checkpoint)
        found.setdefault((turn, entry.root), []).append(entry)
    return [found[key] for key in sorted(found)]


def _most(entry: FileEntry, is_live: bool) -> int:
    """How long a file may be when it comes, in bytes: what a live run writes has grown since."""
    return 2 * entry.size + _SPARE if is_live else entry.size


def _differing(manifest: Manifest, folder: Path) -> set[_Key]:
    """The files here that are not what the manifest says; a log may have grown since."""
    bad = set()
    for key, entry in _keys(manifest).items():
        path = folder / _name(manifest, key)
        try:
            size = path.stat().st_size
            grew = manifest.live and path.suffix in _GROWING and size > entry.size
            if (size != entry.size and not grew) or hash_of(path, entry.size) != entry.sha256:
                bad.add(key)
        except OSError:
            bad.add(key)
    return bad


def _check_room(manifest: Manifest, folder: Path) -> None:
    """FresnelError when it does not fit on the disk here."""
    missing = sum(
        _missing(folder / _name(manifest, key), entry) for key, entry in _keys(manifest).items()
    )
    free = shutil.disk_usage(folder).free
    if missing + _SPARE > free:
        raise FresnelError(
            f"{manifest.run}: {missing / 1e6:,.0f} MB to bring, {free / 1e6:,.0f} MB free in "
            f"{folder}",
            "--to names another folder; --checkpoints none leaves the checkpoints",
        )


def _missing(path: Path, entry: FileEntry) -> int:
    """The bytes of a file that are not here yet."""
    return entry.size if not path.exists() else max(0, entry.size - path.stat().st_size)
